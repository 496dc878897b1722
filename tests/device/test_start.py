"""How a device begins: with columns by name, its first rows, or not at all."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove import Basis, Detector
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.errors import BadInput
from support.agents import NAMES, verdicts
from support.at_work import LIKE, at_work, learned
from support.factories import detector_in, member_in, normal_rows, write_rows
from support.serving import wait_until

pytestmark = pytest.mark.usefixtures("own_folder")


def test_columns_by_name_and_without_some(tmp_path: Path) -> None:
    X = normal_rows(1, 50)
    write_rows(Path("a.csv"), np.hstack([np.arange(50)[:, None], X]), ["time", *NAMES])
    Agent(Settings(state="fan.elm", source="a.csv", drop=["time"], verdicts="")).run()
    assert detector_in("fan.elm").basis.features == tuple(NAMES)
    order = [3, 0, 5, 1, 4, 2]
    write_rows(Path("b.csv"), X[:, order], [NAMES[i] for i in order])
    Agent(Settings(state="fan.elm", source="b.csv", verdicts="")).run()
    detector = detector_in("fan.elm")
    twice = Detector(detector.basis.layer, scaling=detector.basis.scaling, features=NAMES)
    twice.learn_many(np.vstack([X, X]))
    assert detector.evidence.close_to(twice.evidence, 1e-12)


@pytest.mark.parametrize(("start_rows", "fitted"), [(20, 20), (100, 50)])
def test_the_first_rows_decide_where_nothing_else_does(start_rows: int, fitted: int) -> None:
    X = normal_rows(1, 50) * 7 + 3
    write_rows(Path("fan.csv"), X)
    Agent(
        Settings(**LIKE | {"like": "", "rate": 0.05}, source="fan.csv", start_rows=start_rows)
    ).run()
    detector = detector_in("fan.elm")
    assert detector.basis == Basis.fitted(X[:fitted], None, scaling="standard")
    assert detector.gate.policy.rate == 0.05
    assert len(verdicts(Path("fan.jsonl"))) == 50


def test_merged_counts_for_a_state_as_well_and_stays() -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 50))
    for merged, merges in ((False, False), (True, True), (False, True)):
        Agent(Settings(state="fan.elm", source="fan.csv", verdicts="", merged=merged)).run()
        assert member_in("fan.elm").merges == merges
    Agent(Settings(state="new.elm", source="fan.csv", verdicts="", merged=True)).run()
    assert member_in("new.elm").merges


def test_too_few_rows_to_begin_with_make_no_state(caplog: pytest.LogCaptureFixture) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 5))
    agent = Agent(Settings(source="fan.csv", state="fan.elm", verdicts=""))
    agent.stop()
    agent.run()
    assert not Path("fan.elm").exists()
    with at_work(source="fan.csv", follow=True, state="fan.elm", verdicts="") as working:
        wait_until(lambda: len(working._first) == 5)
    assert "stopped after 5 rows, fewer than start_rows: nothing was learned" in caplog.text
    assert not Path("fan.elm").exists()
    Agent(Settings(source="fan.csv", state="fan.elm", verdicts="")).run()
    assert learned(Path("fan.elm")) == 5, "nothing of a file is lost by that"


def test_rows_of_another_width_are_an_error_and_make_no_state() -> None:
    write_rows(Path("narrow.csv"), normal_rows(1, 50)[:, :4])
    with pytest.raises(BadInput, match="4 columns, where 6 are learned"):
        Agent(Settings(**LIKE, source="narrow.csv")).run()
    assert not Path("fan.elm").exists()
