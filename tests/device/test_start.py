"""How a device begins: with columns by name, its first rows, or not at all."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, Detector
from elmgrove.detector.events import AlarmRule
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings, read_settings
from elmgrove.errors import BadInput
from support.agents import LIKE, NAMES, Start, append_rows, at_work, learned, verdicts
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


# Settings of a device that was made with others: applied and said, or refused (newcomer 5)

ALONE = {"state": "fan.elm", "source": "fan.csv", "verdicts": "fan.jsonl"}


def work(**given: Any) -> None:
    Agent(read_settings(None, ALONE | given)).run()


def test_an_agent_that_is_restarted_with_other_flags_applies_them_and_says_so(
    device: Start,
) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 900))
    assert device("fan", alarm="2/2").end() == 0
    before = detector_in("fan.elm")
    assert before.state == "watching"
    append_rows(Path("fan.csv"), normal_rows(2, 1) + 9.0)
    changed = device("fan", alarm="1/1/0", rate=0.05, window="auto")
    assert changed.end() == 0
    after = detector_in("fan.elm")
    for line in (
        "settings: rate: 0.05, before 0.01",
        "settings: alarm_k: 1, before 2",
        "settings: alarm_n: 1, before 2",
        "settings: alarm_cooldown: 0, before 60",
    ):
        assert f"INFO {line}\n" in changed.log
    assert f"before: {before.threshold:.4g}" in changed.log
    assert after.gate.policy.rate == 0.05
    assert after.threshold < before.threshold
    assert after.events.rule == AlarmRule(1, 1, 0)
    assert verdicts(Path("fan.jsonl"))[-1]["alarm"]
    # What is not said is as it was.
    again = device("fan")
    assert again.end() == 0
    assert "settings:" not in again.log
    assert detector_in("fan.elm").events.rule == AlarmRule(1, 1, 0)


@pytest.mark.parametrize(
    ("setting", "value", "held"),
    [
        ("window", "5", "1"),
        ("spectrum", "2000:64", "none"),
        ("patterns", "2", "1"),
    ],
)
def test_what_would_need_learning_again_is_refused(setting: str, value: Any, held: str) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 60))
    work(window="1")
    before = Path("fan.elm").read_bytes()
    with pytest.raises(BadInput) as refused:
        work(**{setting: value})
    assert str(refused.value).startswith(f"{setting}: fan.elm has {held}, not ")
    assert "leave the setting out, or begin with another state file" in str(refused.value)
    assert Path("fan.elm").read_bytes() == before


def test_a_lower_rate_that_lacks_scores_says_what_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 900))
    work()
    assert np.isfinite(detector_in("fan.elm").threshold)
    caplog.set_level("INFO")
    work(rate=0.0005)
    assert "settings: learning: " in caplog.text
    assert "more rows without an anomalous one until there are alarms" in caplog.text
    assert detector_in("fan.elm").state == "learning"
