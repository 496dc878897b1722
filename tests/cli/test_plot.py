"""``elmgrove plot``: of rows and of a state."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from elmgrove.storage.disk import save
from support.commands import Elmgrove, Ran, made_once
from support.factories import member_in
from support.labelled import labelled, labelled_pump_rows, write_labelled


@pytest.fixture(name="pump")
def pump_fixture(elmgrove: Elmgrove) -> Path:
    """A state that learned 2,000 normal rows, and rows with four faults beside it."""

    def make() -> None:
        write_labelled("normal.csv", labelled_pump_rows(2000, seed=3))
        given = ("--state", "pump.elm", "--watch-now")
        assert elmgrove("learn", "normal.csv", *given).code == 0
        write_labelled("new.csv", labelled()[0])

    made_once("pump that is drawn", make)
    return Path("pump.elm")


def drawn(path: str) -> np.ndarray:
    """A picture, which is not blank."""
    seen = imread(path)
    assert seen.shape[1] > 1000
    assert seen.std() > 0.02
    return np.asarray(seen)


def test_rows_are_drawn_with_the_state_that_judges_them(elmgrove: Elmgrove, pump: Path) -> None:
    before = pump.read_bytes()
    ran = elmgrove("plot", "new.csv", "--state", pump)
    assert ran.code == 0
    assert "pump: 4 events in 1,600 rows, the worst at 2026-03-0" in ran.err
    assert "Wrote new.csv.png." in ran.err
    drawn("new.csv.png")
    assert pump.read_bytes() == before, "nothing is learned"
    whole = Path("new.csv.png").read_bytes()
    assert elmgrove("plot", "new.csv", "--state", pump, "--event", 2, "--out", "two.png").code == 0
    assert Path("two.png").read_bytes() != whole


def test_a_state_is_drawn_with_what_it_remembers(elmgrove: Elmgrove, pump: Path) -> None:
    ran = elmgrove("plot", pump)
    assert "the last 512 rows it learned, and 0 that wait in quarantine. Wrote pump.elm.png." in (
        ran.err
    )
    member = member_in(pump)
    member.detector.observe_many(labelled()[0])
    save(pump, member)
    ran = elmgrove("plot", pump, "--out", "state.svg")
    assert f"{len(member.detector.quarantine)} that wait in quarantine" in ran.err
    assert Path("state.svg").read_text().startswith("<?xml")


def refused(ran: Ran) -> str:
    """The text of an error, which may follow notes about the file."""
    assert (ran.code, ran.out) == (1, "")
    last = ran.err.splitlines()[-1]
    assert last.startswith("Error: ")
    return last


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("plot", "new.csv"), "give the state that judges them (--state)"),
        (
            ("plot", "new.csv", "--state", "pump.elm", "--event", 9),
            "no event 9, but 1 to 4",
        ),
        (("plot", "empty.csv", "--state", "pump.elm"), "no rows to draw"),
        (("plot", "new.csv", "--state", "pump.elm", "-o", "a.txt"), "a.txt"),
    ],
)
def test_what_cant_be_drawn_is_said(
    elmgrove: Elmgrove,
    pump: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[object, ...],
    text: str,
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    Path("empty.csv").write_text("time,rpm,temp,volt,amp\n")
    assert text in refused(elmgrove(*command))
