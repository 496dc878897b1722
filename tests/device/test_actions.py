"""What can be asked of a device, without an agent."""

from typing import Any

import numpy as np
import pytest

from elmgrove import BadInput, Detector
from elmgrove.device.actions import perform
from elmgrove.device.status import status_of
from elmgrove.federation.member import Member
from support.factories import detector_for, trained


def test_times_without_rows_are_refused_and_nothing_is_learned() -> None:
    X = np.random.default_rng(0).normal(size=(600, 3))
    detector = detector_for(X, window=1)
    detector.observe_many(X[:20] + 30.0)
    member = Member("fan", detector)
    waiting = len(detector.quarantine)
    assert waiting
    with pytest.raises(BadInput, match="times are those of rows"):
        perform(member, "accept", {"times": [1]})
    assert len(member.detector.quarantine) == waiting


@pytest.fixture
def member() -> Member:
    X = np.random.default_rng(0).normal(size=(600, 3))
    detector = trained(Detector.for_data(X, window=1), X, np.arange(600.0))
    detector.observe_many(X[:20] + 30.0, np.arange(600.0, 620.0))
    return Member("fan", detector)


@pytest.mark.parametrize("action", ["accept", "reject"])
@pytest.mark.parametrize("asked", [{"from": None, "to": None}, {"event": None}, {"dry_run": None}])
def test_null_is_no_word(member: Member, action: str, asked: dict[str, Any]) -> None:
    before = member.to_bytes()
    with pytest.raises(BadInput, match="is null: give it a value, or leave the word out"):
        perform(member, action, asked)
    assert member.to_bytes() == before


def test_the_last_answer_is_undone_and_who_answered_is_told(member: Member) -> None:
    perform(member, "reject", {}, by="mqtt")
    assert perform(member, "undo", {}, by="control")["feedback"]["rows"] == 20
    status = status_of(member)
    assert [(one["action"], one["by"]) for one in status["answers"]] == [
        ("reject", "mqtt"),
        ("undo", "control"),
    ]
    assert status["answers"][1]["text"].endswith("20 rows wait again")
    assert (status["undoable"], status["event"]["answered"]) == (False, None)
    with pytest.raises(BadInput, match="no answer to undo"):
        perform(member, "undo", {})
