"""What every exchange promises, one suite for all of them; and what only a folder can get wrong."""

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmgrove import BadFile, BadInput, Basis, ElmgroveError, Evidence, HiddenLayer
from elmgrove.errors import Outdated, Refused, Unauthorized, Unreachable
from elmgrove.exchange.folder import CHARTER as CHARTER_FILE
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.http import HttpExchange
from elmgrove.federation.contribution import Contribution, Departure, Entry
from elmgrove.federation.merged import Merged, Own
from elmgrove.federation.policy import Terms
from elmgrove.federation.selection import Everyone, Named, Quality, Rule, SameGroup
from support.brokered import BASIS, CHARTER
from support.exchanges import KINDS, Way, entries, ways_to
from support.factories import contribution_from, contribution_of
from support.faults import full
from support.reports import report
from support.serving import ADMIN, serving

GROUP = SameGroup()


@pytest.fixture(params=KINDS)
def exchange(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    with ways_to(request, tmp_path, CHARTER) as way:
        yield way


def publish(exchange: Way, *entries: Entry) -> None:
    for entry in entries:
        exchange(entry.origin).publish(entry)


# What a device weighs


@pytest.mark.parametrize("rule", [Everyone(), Named(("fan-2", "fan-5")), Quality(), GROUP], ids=str)
def test_a_device_counts_with_no_more_rows_than_the_terms_allow(
    rule: Rule, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    honest = [contribution_from(f"fan-{number}", 600) for number in range(1, 5)]
    liar = replace(honest[3], origin="fan-5", parts=(honest[3].evidence.weighted(1e6),))
    charter = replace(CHARTER, terms=Terms(most_rows=5000))
    for kind in ("memory", "http on sqlite"):
        request.param = kind
        with ways_to(request, tmp_path, charter) as way:
            publish(way, *honest, liar)
            merged = way("fan-1").merged("fan-1", rule)
            assert "fan-5" in merged.used
            assert merged.evidence.count <= 3 * 600 + 5000


# Publishing


def test_a_device_finds_the_charter_says_how_it_is_doing_and_is_asked_nothing(
    exchange: Way,
) -> None:
    assert exchange("fan-1").charter == CHARTER
    told = report("fan-1")
    assert exchange("fan-1").report(told) == ()
    assert exchange("fan-1").report(told) == (), "the same twice is once"


def test_what_was_published_is_found(exchange: Way) -> None:
    told = [contribution_from("fan-1"), contribution_from("fan-2", 7), Departure("fan-3", 4)]
    publish(exchange, *told)
    assert entries(exchange) == told
    publish(exchange, contribution_from("fan-1", 8))
    assert entries(exchange) == [contribution_from("fan-1", 8), *told[1:]]


def test_the_same_twice_is_once(exchange: Way) -> None:
    publish(exchange, contribution_from("fan-1"), contribution_from("fan-2"))
    known = exchange("fan-2").merged("fan-2")
    publish(exchange, contribution_from("fan-1"))
    assert entries(exchange) == [contribution_from("fan-1"), contribution_from("fan-2")]
    assert exchange("fan-2").merged("fan-2", known=known) is None


@pytest.mark.parametrize(
    ("entry", "shrunk"),
    [
        (contribution_from("fan-1", 4), True),
        (contribution_from("fan-1", 5, epoch=4), False),
        (contribution_from("fan-1", 6, epoch=5), False),
        (contribution_from("fan-1", 4, epoch=9), True),
        (Departure("fan-1", 5), False),
        (Departure("fan-1", 4), False),
    ],
)
def test_what_can_not_follow_is_outdated_and_changes_nothing(
    exchange: Way, entry: Entry, shrunk: bool
) -> None:
    publish(exchange, contribution_from("fan-1", 5))
    with pytest.raises(Outdated) as refused:
        publish(exchange, entry)
    assert (refused.value.held_epoch, refused.value.shrunk) == (5, shrunk)
    assert entries(exchange) == [contribution_from("fan-1", 5)]


def test_a_device_that_left_is_not_counted_and_may_return_with_less(exchange: Way) -> None:
    publish(exchange, contribution_from("fan-1"), contribution_from("fan-2"))
    publish(exchange, Departure("fan-1", 6))
    merged = exchange("fan-2").merged("fan-2")
    assert (merged.devices, merged.evidence) == (0, Evidence.zero(BASIS))
    with pytest.raises(Outdated):
        publish(exchange, contribution_from("fan-1", 6))
    publish(exchange, Departure("fan-1", 6), contribution_from("fan-1", 2, epoch=7))
    assert entries(exchange) == [
        contribution_from("fan-1", 2, epoch=7),
        contribution_from("fan-2", 5),
    ]


def lie(origin: str, **changes: float | np.ndarray) -> Entry:
    honest = contribution_from(origin)
    assert isinstance(honest, Contribution)
    return replace(honest, parts=(replace(honest.evidence, **changes),))


@pytest.mark.parametrize(
    "entry",
    [
        contribution_from("fan-1", 9, basis=Basis(HiddenLayer(3, 2, activation="tanh", seed=2), 3)),
        contribution_from("fan-1", 9, basis=replace(BASIS, features=("a", "b", "c"))),
        contribution_from("pump-1"),
        Departure("pump-1", 5),
        lie("fan-1", energy=0.0),
        lie("fan-1", U=-np.eye(2)),
        lie("fan-1", V=np.full((2, 3), np.nan)),
        lie("fan-1", energy=1e200),
        lie("fan-1", count=1e200),
    ],
    ids=["layer", "features", "name", "leaving", "energy", "U", "nan", "too large", "too many"],
)
def test_what_does_not_belong_is_refused_and_changes_nothing(exchange: Way, entry: Entry) -> None:
    publish(exchange, contribution_from("fan-1", 4))
    known = exchange("fan-2").merged("fan-2")
    with pytest.raises(ElmgroveError):
        exchange("fan-1").publish(entry)
    assert entries(exchange) == [contribution_from("fan-1", 4)]
    assert exchange("fan-2").merged("fan-2", known=known) is None


# Reading


def test_entries_are_in_the_order_of_the_names(exchange: Way) -> None:
    names = ["fan", "fan-2", "fan 1", "fanß", "Lüfter/1"]
    publish(exchange, *map(contribution_from, names), Departure("fan.3", 9))
    found = [(one.origin, isinstance(one, Departure)) for one in entries(exchange)]
    assert found == sorted([("fan.3", True), *((name, False) for name in names)])


def test_an_answer_says_what_is_held_of_who_asks(exchange: Way) -> None:
    publish(exchange, contribution_from("fan-1", 7), contribution_from("fan-2"))
    publish(exchange, Departure("fan-2", 9))
    for name, own in (("fan-1", Own(7, False)), ("fan-2", Own(9, True)), ("fan-3", None)):
        for ask in (exchange(name).merged, exchange(name).others):
            found = ask(name)
            assert found.own == own


# Whom to learn from


@pytest.fixture
def kinds(exchange: Way) -> Way:
    publish(exchange, *(replace(one, threshold=1.0) for one in FLEET), BOTH)
    return exchange


def test_names_are_those_that_a_device_asks_for(kinds: Way) -> None:
    rule = Named(("fan-2", "fan-9", "fan-3"))
    found = kinds("fan-0").merged("fan-0", rule)
    assert (found.used, found.rule) == (("fan-2", "fan-3"), "fan-2,fan-9,fan-3")
    assert found.left_out == (("fan-9", "contributed nothing"),)
    assert found.evidence.close_to(summed(FLEET[2], FLEET[3]), 1e-12)
    others = kinds("fan-0").others("fan-0", rule)
    assert [str(label) for label in others.labels] == ["fan-2, fan-3"]
    assert others.evidence.close_to(found.evidence, 1e-12)
    assert kinds("fan-0").others("fan-0", rule, others) is None


def test_what_is_of_another_group_is_left_out(kinds: Way) -> None:
    others = kinds("fan-0").others("fan-0", GROUP)
    assert others.used == ("fan-1", "fan-4", "fan-7")
    assert dict(others.left_out) == dict.fromkeys(("fan-2", "fan-3", "fan-5"), "of another group")
    assert "left out: fan-2, of another group" in str(others)


def test_what_is_unfit_is_left_out_and_told_how_much_worse_it_is(exchange: Way) -> None:
    same = [of_kinds(f"fan-{n}", 1) for n in range(6)]
    publish(exchange, *(replace(one, threshold=1.0) for one in same), of_kinds("fan-6", 2))
    for ask in (exchange("fan-0").merged, exchange("fan-0").others):
        found = ask("fan-0", Quality())
        assert (found.devices, found.used) == (5, tuple(f"fan-{n}" for n in range(1, 6)))
        ((name, why),) = found.left_out
        assert name == "fan-6"
        assert why.endswith(" times worse")
        assert found.evidence.close_to(summed(*same[1:]), 1e-12)


@pytest.mark.parametrize("rule", [Everyone(), Named(("fan-2", "fan-3")), GROUP], ids=str)
def test_patterns_are_told_apart(kinds: Way, rule: Rule) -> None:
    found = kinds("fan-7").merged("fan-7", rule, patterns=True)
    assert found.apart
    for kind in ((0, 1, 4), (2, 3, 5)):
        if some := [FLEET[n] for n in kind if f"fan-{n}" in found.used]:
            assert sum(group.close_to(summed(*some), 1e-12) for group in found.parts) == 1


def test_the_sum_is_that_of_all_others_and_of_nobody_nothing(exchange: Way) -> None:
    publish(exchange, contribution_from("fan-1"))
    nobody = exchange("fan-1").merged("fan-1")
    assert (nobody.devices, nobody.evidence) == (0, Evidence.zero(BASIS))
    assert exchange("fan-1").merged("fan-1", known=nobody) is None
    publish(exchange, contribution_from("fan-2", 7), contribution_from("fan-3", 9))
    publish(exchange, Departure("fan-4", 9))
    for name, others in (("fan-2", (5, 9)), ("fan-9", (5, 7, 9))):
        merged = exchange(name).merged(name)
        parts = [e.evidence for e in entries(exchange) if isinstance(e, Contribution)]
        expected = Evidence.sum(part for part in parts if part.count in others)
        assert (merged.federation, merged.devices) == ("fans", len(others))
        assert merged.evidence.close_to(expected, 1e-12)


def test_only_what_others_did_is_a_change(exchange: Way) -> None:
    publish(exchange, contribution_from("fan-1"), contribution_from("fan-2"))
    known = exchange("fan-1").merged("fan-1")
    assert exchange("fan-1").merged("fan-1", known=known) is None
    publish(exchange, contribution_from("fan-1", 9))
    assert exchange("fan-1").merged("fan-1", known=known) is None
    for entry in (
        contribution_from("fan-2", 6),
        contribution_from("fan-3"),
        Departure("fan-2", 7),
        contribution_from("fan-2", 6, epoch=8),
    ):
        publish(exchange, entry)
        changed = exchange("fan-1").merged("fan-1", known=known)
        assert changed.revision != known.revision
        known = changed
    assert known.devices == 2


# In groups


def rows_of(kind: int, seed: int, count: int = 200) -> np.ndarray:
    """Rows around a line of their own."""
    direction = np.random.default_rng(kind).normal(size=(1, 3))
    rng = np.random.default_rng(100 + seed)
    return rng.normal(size=(count, 1)) @ direction + 0.05 * rng.normal(size=(count, 3))


def of_kinds(origin: str, *kinds: int, rows: int = 200) -> Contribution:
    seed = sum(origin.encode())
    patterns = (rows_of(kind, seed + 50 * n, rows) for n, kind in enumerate(kinds))
    return contribution_of(origin, *patterns, basis=BASIS)


#: Two kinds of machines, each a few times, and one machine that is of both.
FLEET = [of_kinds(f"fan-{n}", kind) for n, kind in enumerate((1, 1, 2, 2, 1, 2))]
BOTH = of_kinds("fan-7", 2, 1)


def back(exchange: Way, name: str) -> Merged:
    found = exchange(name).merged(name, GROUP)
    assert (found.federation, found.rule) == ("fans", "group")
    assert exchange(name).merged(name, GROUP, found) is None
    return found


def summed(*contributions: Contribution) -> Evidence:
    return Evidence.sum(one.evidence for one in contributions)


def test_one_model_gets_its_group_and_as_many_patterns_as_groups_get_all(exchange: Way) -> None:
    publish(exchange, *FLEET)
    for name, others in (("fan-0", (1, 4)), ("fan-3", (2, 5))):
        found = back(exchange, name)
        assert (found.devices, len(found.received)) == (2, 1)
        assert found.evidence.close_to(summed(*(FLEET[n] for n in others)), 1e-12)
    publish(exchange, BOTH)
    found = back(exchange, "fan-7")
    assert found.devices == 6
    for kind in ((0, 1, 4), (2, 3, 5)):
        expected = summed(*(FLEET[n] for n in kind))
        assert sum(group.close_to(expected, 1e-12) for group in found.parts) == 1
    first = back(exchange, "fan-0")
    assert first.devices == 3
    assert first.evidence.close_to(summed(FLEET[1], FLEET[4]) + BOTH.parts[1], 1e-12)


def test_a_device_that_has_published_nothing_or_left_gets_nothing(exchange: Way) -> None:
    publish(exchange, *FLEET, Departure("fan-0", 999))
    for name in ("fan-0", "fan-9"):
        found = back(exchange, name)
        assert (found.devices, found.received) == (0, ())
        assert found.evidence == Evidence.zero(BASIS)
    assert back(exchange, "fan-1").evidence.close_to(FLEET[4].evidence, 1e-12)


def test_in_groups_ones_own_change_counts_and_so_does_another_setting(exchange: Way) -> None:
    publish(exchange, *FLEET)
    way, known = exchange("fan-0"), back(exchange, "fan-0")
    found = way.merged("fan-0", known=known)
    assert found.rule == "everyone"
    assert way.merged("fan-0", GROUP, found) == known
    publish(exchange, of_kinds("fan-0", 1))
    assert way.merged("fan-0", GROUP, known) is None, "the same twice is once"
    publish(exchange, of_kinds("fan-0", 2, rows=300))
    moved = way.merged("fan-0", GROUP, known)
    assert moved.evidence.close_to(summed(FLEET[2], FLEET[3], FLEET[5]), 1e-12)
    publish(exchange, Departure("fan-3", 999))
    left = way.merged("fan-0", GROUP, moved)
    assert left.evidence.close_to(summed(FLEET[2], FLEET[5]), 1e-12)
    publish(exchange, replace(FLEET[3], epoch=1000))
    again = way.merged("fan-0", GROUP, left)
    assert again.evidence.close_to(moved.evidence, 1e-12)


def test_a_device_is_told_of_all_others_at_once(exchange: Way) -> None:
    known = [of_kinds("fan-1", 0), of_kinds("fan-2", 0, 1), of_kinds("fan-3", 1)]
    publish(exchange, *(replace(one, threshold=1.0) for one in known))
    told = exchange("fan-3").others("fan-3")
    assert (told.devices, told.loans) == (2, ()), "a loss lends nothing"
    names = [str(label) for label in told.labels]
    assert names == ["fan-1, fan-2 (pattern 1)", "fan-2 (pattern 2)"]
    both = of_kinds("fan-1", 0).parts[0] + of_kinds("fan-2", 0, 1).parts[0]
    assert told.parts[0].close_to(both, 1e-12)
    assert exchange("fan-3").others("fan-3", known=told) is None
    publish(exchange, Departure("fan-1", 1000))
    without = exchange("fan-3").others("fan-3", known=told)
    assert {str(label) for label in without.labels} == {"fan-2 (pattern 1)", "fan-2 (pattern 2)"}
    assert exchange("fan-9").others("fan-9") is not None, "also who never published"


def test_closing_twice_does_no_harm(exchange: Way) -> None:
    way = exchange("fan-1")
    way.close()
    way.close()


# A folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    FolderExchange.create(tmp_path, CHARTER)
    for name in ("fan-1", "fan-2"):
        FolderExchange(tmp_path).publish(contribution_from(name))
    return tmp_path


WHOLE = contribution_from("fan-1").to_bytes()


@pytest.mark.parametrize(
    "blob",
    [
        WHOLE[:-1],
        b"",
        contribution_from("fan-3").to_bytes(),
        contribution_from("pump-1").to_bytes(),
        contribution_from("fan-1", basis=Basis(HiddenLayer(3, 2, seed=7), 3)).to_bytes(),
    ],
    ids=["damaged", "empty", "of another", "of a stranger", "of another layer"],
)
def test_a_file_that_does_not_belong_is_left_out_with_a_warning_until_it_is_replaced(
    folder: Path, blob: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    exchange, path = FolderExchange(folder), folder / "fan-1.entry"
    known = exchange.merged("fan-9")
    path.write_bytes(blob)
    with caplog.at_level(logging.WARNING, "elmgrove.exchange"):
        for _ in range(2):
            assert exchange.entries() == [contribution_from("fan-2")]
    assert str(path) in caplog.text
    assert caplog.text.count("left out") == 1, "the same is told once"
    merged = exchange.merged("fan-9", known=known)
    assert merged.devices == 1
    exchange.publish(contribution_from("fan-1", 9))
    assert exchange.entries()[0] == contribution_from("fan-1", 9)


def test_a_change_shows_even_where_no_clock_ticks(folder: Path) -> None:
    exchange, path = FolderExchange(folder), folder / "fan-1.entry"
    publish(lambda device: exchange, contribution_from("fan-1", 5, epoch=6))
    before, known = path.stat(), exchange.merged("fan-2")
    publish(lambda device: exchange, contribution_from("fan-1", 6, epoch=7))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    changed = exchange.merged("fan-2", known=known)
    assert changed.evidence.count == 6


def test_a_folder_that_is_gone_is_unreachable_and_may_come_back(folder: Path) -> None:
    exchange, away = FolderExchange(folder), folder.with_name("unplugged")
    assert exchange.charter == CHARTER
    folder.rename(away)
    for call in (
        lambda: exchange.publish(contribution_from("fan-3")),
        exchange.entries,
        lambda: exchange.merged("fan-1"),
        lambda: FolderExchange(folder).charter,
    ):
        with pytest.raises(Unreachable, match=folder.name):
            call()
    away.rename(folder)
    assert len(exchange.entries()) == 2


def test_a_file_that_can_not_be_read_is_no_reason_to_forget_a_device(folder: Path) -> None:
    """A directory in its place fails like a broken disk does."""
    (folder / "fan-1.entry").unlink()
    (folder / "fan-1.entry").mkdir()
    exchange = FolderExchange(folder)
    for call in (
        exchange.entries,
        lambda: exchange.merged("fan-2"),
        lambda: exchange.publish(contribution_from("fan-1", 6)),
    ):
        with pytest.raises(Unreachable):
            call()


@pytest.mark.parametrize("name", ["fan-1.entry", "fan-3.entry", CHARTER_FILE])
def test_nobody_waits_for_a_pipe_or_reads_a_device_without_end(folder: Path, name: str) -> None:
    def unreachable() -> None:
        exchange = FolderExchange(folder)
        for call in (
            exchange.entries,
            lambda: exchange.merged("fan-2"),
            lambda: exchange.others("fan-2"),
        ):
            with pytest.raises(Unreachable, match=name):
                call()
        if name != "fan-3.entry":
            with pytest.raises(Unreachable, match=name):
                exchange.publish(contribution_from("fan-1", 6))

    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    unreachable()
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    unreachable()


def test_a_file_that_is_longer_than_the_charter_explains_is_not_read(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (folder / "fan-1.entry").open("ab") as file:
        file.truncate(1 << 40)
    assert [one.origin for one in FolderExchange(folder).entries()] == ["fan-2"]
    assert "fan-1.entry is left out: longer than" in caplog.text


def test_a_full_folder_refuses_has_the_former_one_and_no_rest_and_can_be_read(folder: Path) -> None:
    path = folder / "fan-1.entry"
    before = path.read_bytes()
    with full(100), pytest.raises(Refused, match="takes nothing new: File too large"):
        FolderExchange(folder).publish(contribution_from("fan-1", 9))
    assert path.read_bytes() == before
    assert sorted(p.name for p in folder.iterdir()) == ["fan-1.entry", "fan-2.entry", CHARTER_FILE]
    assert len(FolderExchange(folder).entries()) == 2


def test_other_files_do_not_matter(folder: Path) -> None:
    (folder / "notes.txt").write_text("x")
    shutil.copy(folder / "fan-1.entry", folder / ".fan-1.entry.0badcafe")
    assert len(FolderExchange(folder).entries()) == 2


@pytest.mark.parametrize("name", ["", ".fan", "fan\n", "\ud800", "fan" * 70])
def test_a_name_that_no_file_can_have_is_refused(folder: Path, name: str) -> None:
    with pytest.raises((BadInput, Refused)):
        FolderExchange(folder).publish(Departure(name, 1))


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", b'{"name": "fans"}', b"[" * 10**5])
def test_a_definition_that_is_none_is_a_bad_file(folder: Path, text: bytes) -> None:
    (folder / CHARTER_FILE).write_bytes(text)
    with pytest.raises(BadFile, match=CHARTER_FILE):
        FolderExchange(folder).entries()


def test_a_folder_is_made_once(folder: Path) -> None:
    FolderExchange.create(folder, CHARTER)
    assert len(FolderExchange(folder).entries()) == 2
    with pytest.raises(BadInput, match="another federation"):
        FolderExchange.create(folder, replace(CHARTER, ridge=0.2))
    assert FolderExchange(folder).charter == CHARTER
    with pytest.raises(Unreachable):
        FolderExchange.create(folder / "fan-1.entry" / "below", CHARTER)


# A disk that takes nothing


def test_a_device_that_can_not_keep_its_key_does_not_join_yet(tmp_path: Path) -> None:
    """The key is told once: without a place for it the name would be lost."""
    with serving(f"sqlite:///{tmp_path}/store.db") as server:
        made = server.found(CHARTER)
        keyfile = tmp_path / "card" / "fan-1.key"
        url = f"{server.base}/{CHARTER.name}"
        with HttpExchange(url, "fan-1", token=made.token, keyfile=keyfile) as exchange:
            with pytest.raises(Unreachable, match=r"fan-1\.key can't be written: No such file"):
                _ = exchange.charter
            devices = made.ask("GET", "/devices", ADMIN).json()["devices"]
            assert devices == []
            keyfile.parent.mkdir()
            assert exchange.charter.name == CHARTER.name
            assert keyfile.read_text().startswith("elm-")
        with HttpExchange(url, "fan-2", token="wrong", keyfile=tmp_path / "fan-2.key") as exchange:
            with pytest.raises(Unauthorized):
                _ = exchange.charter
            assert not (tmp_path / "fan-2.key").exists()


def test_a_device_that_did_not_hear_that_it_joined_asks_again(tmp_path: Path) -> None:
    """Killed, or the server was: its name is not lost, and nobody else can have it."""
    with serving(f"sqlite:///{tmp_path}/store.db") as server:
        made, keyfile = server.found(CHARTER), tmp_path / "fan-1.key"
        key = f"elm-key-{'k' * 43}"
        asked = {"name": "fan-1", "key": key}
        assert made.ask("POST", "/devices", made.token, json=asked).status_code == 201
        keyfile.write_text(f"joining {key}")
        url = f"{server.base}/{CHARTER.name}"
        with HttpExchange(url, "fan-1", token=made.token, keyfile=keyfile) as exchange:
            assert exchange.charter.name == CHARTER.name
        assert keyfile.read_text() == key
        keyfile.write_text(f"joining {key}")
        outdated = HttpExchange(url, "fan-1", token="outdated", keyfile=keyfile)
        with outdated as exchange, pytest.raises(Unauthorized):
            _ = exchange.charter
        with HttpExchange(url, "fan-1", keyfile=keyfile) as exchange:
            assert exchange.charter.name == CHARTER.name, "the token may be gone by then"
        with HttpExchange(url, "fan-1", token=made.token) as exchange, pytest.raises(Refused):
            _ = exchange.charter
