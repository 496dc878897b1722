"""What the log says about a device's state."""

import logging

import pytest

from elmgrove import Detector, FalseAlarmRate
from elmgrove.detector.decision import CHANGING
from elmgrove.detector.peers import Other
from elmgrove.device.output import Observation, StateLog
from elmgrove.federation.member import Member
from support.factories import DISTANT, cloud
from support.moments import moments_of


def test_many_anomalous_rows_are_a_question(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also where others know them."""
    detector = Detector.for_basis(DISTANT, threshold=FalseAlarmRate(confidence=0.0))
    detector.learn_many(cloud(0, 1))
    log, member = StateLog(detector), Member("fan", detector)
    detector.set_peers([Other("fan-2", (moments_of(DISTANT, cloud(1, 1)),), 3.0)])
    middle = cloud(1, 1).mean(axis=0)
    with caplog.at_level(logging.WARNING, "elmgrove.device"):
        for _ in range(100):
            verdict = detector.observe(middle)
            assert (verdict.anomalous, verdict.known) == (True, ("fan-2",))
            log.observe(Observation(member, None, verdict, detector.events.take_updates()))
            if detector.state == CHANGING:
                break
    opened, told = caplog.messages
    assert opened.startswith("event 1 opened at row 1: 3 rows anomalous, peak ")
    assert ", normal at fan-2; " in opened
    number = told.removeprefix("changing: ").split()[0]
    assert told == f"changing: {number} of the last {number} rows were anomalous"
