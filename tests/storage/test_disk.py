"""Files are whole or not there, whatever happens while they are written."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from elmgrove import BadFile, Detector, HiddenLayer
from elmgrove.errors import InUse
from elmgrove.federation.charter import basis_of
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.rounds.compact import CompactClassifier
from elmgrove.storage.disk import load, locked, save, written
from support.places import GOLDEN

LAYER = HiddenLayer(inputs=20, units=10, seed=1)


def member(learned: int) -> Member:
    made = Member("fan", Detector(LAYER), merges=True)
    made.detector.learn_many(np.random.default_rng(learned).normal(size=(learned, 20)))
    return made


@pytest.fixture(scope="module")
def old() -> Member:
    return member(300)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Reading back


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path: Path, old: Member) -> None:
    path = tmp_path / "fan.elm"
    for content in (old, member(5), old, old.contribution(), member(7)):
        save(path, content)
        assert path.read_bytes() == content.to_bytes()
        assert names(tmp_path) == ["fan.elm"]


# Errors name the file


@pytest.mark.parametrize("read", [Member.from_bytes, Contribution.from_bytes])
@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x00" * 100])
def test_a_bad_file_is_named(
    tmp_path: Path, read: Callable[[bytes], object], content: bytes
) -> None:
    path = tmp_path / "fan [1].elm"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=r"fan \[1\]\.elm: not a file of Elmgrove's"):
        load(path, read)


def test_a_compact_file_is_read_but_is_nothing_to_merge_with(tmp_path: Path) -> None:
    name = "classifier-1.compact"
    held = load(GOLDEN / name, CompactClassifier.from_bytes)
    save(tmp_path / name, held)
    assert (tmp_path / name).read_bytes() == (GOLDEN / name).read_bytes()
    with pytest.raises(BadFile, match=rf"{name}: this holds 'elmgrove.classifier"):
        load(tmp_path / name, basis_of)


@pytest.mark.parametrize("place", ["nowhere/fan.elm", "folder"])
def test_a_place_that_can_not_be_written_is_named_and_left_alone(
    tmp_path: Path, old: Member, place: str
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory") as caught:
        save(tmp_path / place, old)
    assert caught.value.filename == str(tmp_path / place)
    assert names(tmp_path) == ["folder"]


# Links


def test_a_link_stays_one_and_the_file_behind_it_is_written(tmp_path: Path, old: Member) -> None:
    (tmp_path / "card").mkdir()
    link, real = tmp_path / "fan.elm", tmp_path / "card" / "real.elm"
    link.symlink_to("card/real.elm")
    for content in (old, member(5)):
        save(link, content)
        assert link.is_symlink()
        assert real.read_bytes() == content.to_bytes()
        assert names(real.parent) == ["real.elm"]
    with locked(link), pytest.raises(InUse), locked(real):
        pass


# What was written, and something else went wrong


def test_what_is_on_disk_takes_the_place_if_all_went_well(tmp_path: Path) -> None:
    path = tmp_path / "fan.elm"
    path.write_bytes(b"old")
    with pytest.raises(FileNotFoundError), written(path, b"new"):
        (tmp_path / "nothing").unlink()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["fan.elm"]
    with written(path, b"new"):
        pass
    assert path.read_bytes() == b"new"


# Permissions


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o007, 0o660)])
@pytest.mark.usefixtures("umask")
def test_permissions_follow_the_umask(tmp_path: Path, old: Member, mask: int, mode: int) -> None:
    os.umask(mask)
    save(tmp_path / "fan.evidence", old.contribution())
    assert stat.S_IMODE((tmp_path / "fan.evidence").stat().st_mode) == mode
    save(tmp_path / "fan.elm", old)
    assert stat.S_IMODE((tmp_path / "fan.elm").stat().st_mode) == 0o600, "a state holds rows"
    assert os.umask(mask) == mask, "saving must leave the process's umask as it was"


# Interrupted


def run(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True
    )


DISK_FULL = """
import resource, sys
from pathlib import Path
from elmgrove.storage.disk import load, save
from elmgrove.federation import Member
path = Path(sys.argv[1])
member = load(path, Member.from_bytes)
member.detector.learn_many([[1.0] * 20] * 50)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    save(path, member)
except OSError as error:
    print(error.filename)
"""


def test_a_disk_that_is_full_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, old: Member
) -> None:
    path = tmp_path / "fan.elm"
    save(path, old)
    assert path.stat().st_size > 4096
    with run(DISK_FULL, str(path)) as process:
        output, _ = process.communicate(timeout=60)
    assert output.strip() == str(path)
    assert path.read_bytes() == old.to_bytes()
    assert names(tmp_path) == ["fan.elm"]


SAVE_FOR_EVER = """
import sys
from pathlib import Path
from elmgrove.storage.disk import load, save
from elmgrove.federation import Member
path = Path(sys.argv[1])
member = load(path, Member.from_bytes)
while True:
    member.detector.learn_many([[1.0] * 20])
    save(path, member)
    print("saved", flush=True)
"""


def test_a_process_killed_while_saving_leaves_a_whole_file(tmp_path: Path, old: Member) -> None:
    path = tmp_path / "fan.elm"
    save(path, old)
    learned = old.detector.learned
    for _ in range(3):
        with run(SAVE_FOR_EVER, str(path)) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "saved\n"
            before = names(tmp_path)
            while process.poll() is None and names(tmp_path) == before:
                pass  # until a save has begun, or ended
            process.send_signal(signal.SIGKILL)
        now = load(path, Member.from_bytes).detector.learned
        assert now > learned
        learned = now
    save(path, old)
    assert path.read_bytes() == old.to_bytes()
    left = set(names(tmp_path)) - {"fan.elm"}
    assert all(name.startswith(".fan.elm.") for name in left), "what is left must not be seen"


def test_a_lock_is_its_owners_alone_also_one_that_was_left_behind(tmp_path: Path) -> None:
    path, lock = tmp_path / "fan.elm", tmp_path / ".fan.elm.lock"
    with locked(path):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    lock.touch(mode=0o644)
    lock.chmod(0o644)
    with locked(path):
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert not lock.exists()
