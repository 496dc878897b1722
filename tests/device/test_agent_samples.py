"""The agent with a spectrum: verdicts on frames, gaps, restarts, and a federation's charter."""

import logging
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Basis, Detector
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.exchange.folder import FolderExchange
from support.agents import append_rows, verdicts
from support.commands import Elmgrove, elmgrove_fixture
from support.factories import detector_in, member_in, trained, write_rows
from support.fans import SIGNALS, SPECTRUM, TEXT, samples, whistling

__all__ = ["elmgrove_fixture"]
pytestmark = pytest.mark.usefixtures("own_folder")
FAN = {"state": "fan.elm", "source": "fan.csv", "verdicts": "fan.jsonl", "window": "1"}
LENGTH = SPECTRUM.length


def run(**more: object) -> Detector:
    Agent(Settings(**{**FAN, **more})).run()
    return detector_in("fan.elm")


def told() -> list[dict]:
    return verdicts(Path("fan.jsonl"))


def test_a_frame_has_a_verdict_with_its_last_sample() -> None:
    X = whistling(samples(1, 300, more=9), 280)
    write_rows(Path("fan.csv"), X, SIGNALS)
    detector = run(spectrum=TEXT, watch_now=True, alarm="1/5")
    assert [one["where"] for one in told()] == [
        f"fan.csv, line {1 + (frame + 1) * LENGTH}" for frame in range(300)
    ]
    assert detector.learned == sum(one["learned"] for one in told())
    anomalous = told()[280]
    assert (anomalous["anomalous"], anomalous["alarm"]) == (True, True)
    assert anomalous["causes"][0]["feature"] == "vibration 75-87.5 Hz"
    assert len(detector.preparation.frames.pending) == 9


def test_a_restart_goes_on_within_the_frame() -> None:
    X = samples(1, 60)
    cut = 40 * LENGTH + 13
    write_rows(Path("fan.csv"), X[:cut], SIGNALS)
    assert len(run(spectrum=TEXT).preparation.frames.pending) == 13
    append_rows(Path("fan.csv"), X[cut:])
    detector = run()
    assert detector.learned == 60
    at_once = trained(Detector.for_basis(detector.basis), X)
    assert detector.score_many(X) == pytest.approx(at_once.score_many(X), rel=1e-9)


def test_the_first_frames_decide_scaling_and_window(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    settings = Settings(spectrum=TEXT)
    assert settings.first_rows == 20 * LENGTH
    assert Settings(spectrum=TEXT, start_rows=1000).first_rows == 1000
    assert Settings().first_rows == Settings().start_rows == 100
    X = samples(1, 60)
    write_rows(Path("fan.csv"), X, SIGNALS)
    detector = run(spectrum=TEXT, window="auto", start_rows=55 * LENGTH)
    fitted = Detector.for_data(X[: 55 * LENGTH], spectrum=SPECTRUM).basis
    assert detector.basis.scaling == fitted.scaling
    assert detector.basis.window == fitted.window
    assert f"window of {fitted.window}: neighbouring rows are " in caplog.text


def test_a_federation_states_the_spectrum_and_devices_learn_from_each_other(
    elmgrove: Elmgrove,
) -> None:
    X = samples(1, 100)
    write_rows(Path("sample.csv"), X, SIGNALS)
    learned = ("learn", "sample.csv", "--state", "s.elm", "--spectrum", TEXT, "--window", 1)
    assert elmgrove(*learned).code == 0
    how = ["--like", "s.elm", "--exchange", "shared", "--merged"]
    made = elmgrove("federation", "create", "fans", *how)
    assert made.code == 0, made.err
    basis = FolderExchange(Path("shared")).charter.basis
    assert basis == Basis.fitted(X, SIGNALS, scaling="standard", spectrum=SPECTRUM)
    for seed, name in enumerate(("fan-1", "fan-2"), 1):
        write_rows(Path(f"{name}.csv"), samples(seed, 100), SIGNALS)
        Agent(
            Settings(
                name=name,
                state=f"{name}.elm",
                source=f"{name}.csv",
                verdicts=f"{name}.jsonl",
                exchange="shared",
            )
        ).run()
    first, second = (member_in(f"fan-{n}.elm") for n in (1, 2))
    assert second.detector.basis == basis
    assert len(verdicts(Path("fan-2.jsonl"))) == 100
    assert second.detector.received is not None
    assert second.detector.received.count == first.detector.learned
    both = trained(Detector.for_basis(basis), np.vstack([samples(1, 100), samples(2, 100)]))
    X = samples(3, 20)
    assert second.detector.score_many(X) == pytest.approx(both.score_many(X), rel=1e-6)
