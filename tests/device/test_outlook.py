"""What the log says about a device's state."""

import logging

import pytest

from elmgrove import Detector, FalseAlarmRate
from elmgrove.detector import CHANGING, Other
from elmgrove.device.outlook import Outlook
from support.contributions import DISTANT, cloud
from support.moments import moments_of


def test_many_strange_rows_that_nobody_excuses_are_a_question(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also where others know them."""
    detector = Detector.for_basis(DISTANT, threshold=FalseAlarmRate(confidence=0.0))
    detector.learn_many(cloud(0, 1))
    detector.consult([Other("fan-2", (moments_of(DISTANT, cloud(1, 1)),), 3.0)], excused=False)
    outlook = Outlook(detector)
    middle = cloud(1, 1).mean(axis=0)
    with caplog.at_level(logging.WARNING, "elmgrove.device"):
        for _ in range(100):
            verdict = detector.observe(middle)
            assert (verdict.strange, verdict.known) == (True, ("fan-2",))
            outlook.follow(verdict, detector.events.take_news())
            if detector.state == CHANGING:
                break
    opened, told = caplog.messages
    assert opened.startswith("event 1 opened at row 1: 3 rows strange, peak ")
    number = told.removeprefix("changing: ").split()[0]
    assert told == f"changing: {number} of the last {number} rows were strange"


def test_who_knows_strange_rows_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    detector = Detector.for_basis(DISTANT, threshold=FalseAlarmRate(confidence=0.0))
    detector.learn_many(cloud(0, 1))
    others = [Other(f"fan-{kind}", (moments_of(DISTANT, cloud(kind, 1)),), 3.0) for kind in (1, 2)]
    detector.consult(others)
    outlook = Outlook(detector)
    with caplog.at_level(logging.INFO, "elmgrove.device"):
        for kind in (1, 1, 0, 1, 2, 0):
            outlook.follow(detector.observe(cloud(kind, 1).mean(axis=0)))
        outlook.follow(detector.observe(cloud(0, 1).mean(axis=0) + 1e3))
    notices = [text for text in caplog.messages if text.startswith("notice")]
    assert notices == [f"notice: strange here; normal at fan-{kind}" for kind in (1, 2)]
