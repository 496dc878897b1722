"""``elmgrove rounds``: made, taken part in by real processes, and shown."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmgrove.federation import Member
from elmgrove.rounds import Predictor
from elmgrove.storage import load
from support.agents import Running, Start, write_rows
from support.commands import Elmgrove, one_clear_line
from support.serving import ADMIN, Server, wait_until


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("elmgrove.admin").write_text(ADMIN + "\n")
    monkeypatch.delenv("ELMGROVE_ADMIN_TOKEN", raising=False)


def write_modes(path: str, seed: int, count: int = 60) -> None:
    """Rows of which two columns tell the mode."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 4))
    lines = ["a,b,c,d,mode"]
    for row in X:
        mode = "high" if row[0] + row[1] > 0 else "low"
        lines.append(",".join(f"{value:.6g}" for value in row) + f",{mode}")
    Path(path).write_text("\n".join(lines) + "\n")


TakePart = Callable[..., dict[str, Running]]


@pytest.fixture(name="take_part")
def take_part_fixture(start: Start) -> TakePart:
    """Real processes, each with its file."""

    def take_part(url: str, token: str, *names: str) -> dict[str, Running]:
        command = ("rounds", "take-part", url, "--token", token)
        running = {
            name: start(*command, "--name", name, "--data", f"{name}.csv", label=name)
            for name in names
        }
        for one in running.values():
            assert one.end() == 0, one.log
        return running

    return take_part


def test_classes_by_fedavg_from_making_to_predicting(
    elmgrove: Elmgrove, running_server: Server, take_part: TakePart
) -> None:
    url = f"{running_server.base}/modes"
    write_modes("sample.csv", 0, 100)
    write_modes("test.csv", 1, 80)
    for place in (1, 2):
        write_modes(f"site-{place}.csv", 10 + place)
    made = elmgrove(
        *("rounds", "create", url, "--data", "sample.csv", "--target", "mode", "--rule", "fedavg"),
        *("--clients", "2", "--rounds", "2", "--units", "12", "--test", "test.csv"),
    )
    assert made.code == 0, made.err
    assert "2 rounds, 80 test rows" in made.err
    before = elmgrove("rounds", "show", url)
    assert "0 of 2 clients have joined" in before.out
    too_early = elmgrove("rounds", "show", url, "--output", "early.elm")
    assert "not the one that is held" in one_clear_line(too_early)
    found = take_part(url, made.out.strip(), "site-1", "site-2")
    assert re.search(r"Round 1 of 2: answered with [\d,]+ bytes", found["site-1"].log)
    after = elmgrove("rounds", "show", url, "--output", "all.elm")
    assert "all over; 2 clients joined" in after.out
    [last] = [line for line in after.out.splitlines() if line.strip().startswith("2 ")]
    assert float(last.split()[-2]) > 80.0
    ours, theirs = (load(Path(name), Predictor.from_bytes) for name in ("all.elm", "site-1.elm"))
    np.testing.assert_array_equal(ours.models[0].beta, theirs.models[0].beta)
    told = elmgrove("predict", "test.csv", "--model", "site-2.elm")
    assert told.code == 0, told.err


def test_detectors_by_sums_end_as_states_that_score(
    elmgrove: Elmgrove, running_server: Server, take_part: TakePart
) -> None:
    url, rng = f"{running_server.base}/fans", np.random.default_rng(3)
    write_rows(Path("sample.csv"), rng.normal(size=(60, 6)))
    for name in ("fan-1", "fan-2"):
        write_rows(Path(f"{name}.csv"), rng.normal(size=(90, 6)))
    made = elmgrove(
        *("rounds", "create", url, "--data", "sample.csv", "--clients", "2"),
        *("--member", "fan-*", "--key-days", "30"),
    )
    assert made.code == 0, made.err
    found = take_part(url, made.out.strip(), "fan-1", "fan-2")
    assert "2 clients know together" in found["fan-2"].out
    member = load(Path("fan-1.elm"), Member.from_bytes)
    assert member.name == "fan-1"
    assert member.merged is not None
    assert member.merged.devices == 1
    assert elmgrove("score", "fan-2.csv", "--state", "fan-1.elm").code == 0
    assert elmgrove("rounds", "show", url, "-o", "all.elm").code == 0
    assert elmgrove("score", "fan-2.csv", "--state", "all.elm").code == 0


def test_a_rows_file_that_does_not_fit_ends_with_the_reason(
    elmgrove: Elmgrove, running_server: Server
) -> None:
    url = f"{running_server.base}/columns"
    write_modes("sample.csv", 0, 60)
    write_rows(Path("wrong.csv"), np.ones((5, 2)))
    made = elmgrove(
        "rounds", "create", url, "--data", "sample.csv", "--target", "mode", "--clients", "1"
    )
    assert made.code == 0, made.err
    joined = ("--name", "wrong", "--data", "wrong.csv", "--token", made.out.strip())
    ran = elmgrove("rounds", "take-part", url, *joined)
    assert ran.code == 1
    assert "wrong.csv" in ran.err
    wait_until(lambda: "all over" in elmgrove("rounds", "show", url).out)
    assert "Left out wrong" in elmgrove("rounds", "show", url).err


def test_mistakes_are_one_clear_line(elmgrove: Elmgrove, running_server: Server) -> None:
    write_modes("sample.csv", 0, 60)
    made = ("rounds", "create", "--data", "sample.csv", "--clients", "2", "--target", "mode")
    assert "no federation's name" in one_clear_line(elmgrove(*made, running_server.base))
    url = f"{running_server.base}/mistakes"
    both = elmgrove(*made, url, "--test", "sample.csv", "--test-share", "0.5")
    assert "--test-share" in one_clear_line(both)
    assert "Not found" in one_clear_line(elmgrove("rounds", "show", url))
    Path("sample.csv").write_text("a,b,c,d,mode\n")
    assert "no rows with a 'mode'" in one_clear_line(elmgrove(*made, url))
    Path("elmgrove.admin").unlink()
    assert "--admin-token-file" in one_clear_line(elmgrove("rounds", "show", url))


def test_what_is_kept_of_one_federation_is_never_used_in_another(
    elmgrove: Elmgrove, running_server: Server, take_part: TakePart
) -> None:
    write_modes("sample.csv", 0, 100)
    write_modes("fan-1.csv", 1)

    def made(name: str) -> tuple[str, str]:
        url = f"{running_server.base}/{name}"
        how = ("--rule", "fedavg", "--units", 6, "--target", "mode", "--clients", 1)
        ran = elmgrove("rounds", "create", url, "--data", "sample.csv", *how)
        assert ran.code == 0, ran.err
        return url, ran.out.strip()

    take_part(*made("first"), "fan-1")
    url, token = made("second")
    again = ("rounds", "take-part", url, "--token", token, "--name", "fan-1", "--data", "fan-1.csv")
    assert "The key in fan-1.key was used" in one_clear_line(elmgrove(*again))
    Path("fan-1.key").unlink()
    assert "fan-1.answer is of a federation whose key is gone" in one_clear_line(elmgrove(*again))
    Path("fan-1.answer").unlink()
    told = take_part(url, token, "fan-1")["fan-1"]
    assert re.search(r"Round 1 of 1: answered with [\d,]+ bytes", told.log)


def test_a_folder_that_is_not_there_is_told_at_once(
    elmgrove: Elmgrove, running_server: Server
) -> None:
    write_modes("fan-1.csv", 1)
    url = f"{running_server.base}/modes"
    how = ("--token", "elm-join-any", "--name", "hall/fan-1", "--data", "fan-1.csv")
    ran = elmgrove("rounds", "take-part", url, *how)
    assert "hall/fan-1.elm: there is no folder hall" in one_clear_line(ran)
