"""``elmgrove inspect``: what it shows of states, evidence and compact files."""

import json
import re
from pathlib import Path

import numpy as np

from elmgrove.algebra.moments import Moments
from elmgrove.federation.contribution import Contribution
from elmgrove.storage.disk import load, save
from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in
from support.fans import NAMES, write_fan_rows
from support.places import GOLDEN


def test_inspect_shows_a_state(elmgrove: Elmgrove, fan_2: Path) -> None:
    elmgrove("merge", "--state", fan_2, "fan-1.evidence")
    elmgrove(
        "device",
        "run",
        "--source",
        write_fan_rows("more.csv", np.zeros((40, 6))),
        "--state",
        fan_2,
        "--verdicts",
        "",
    )
    facts = json.loads(elmgrove("inspect", fan_2, "--json").out)
    assert facts["holds"] == "a device's state"
    assert (facts["name"], facts["rows learned"]) == ("fan-2", 240)
    assert facts["received from"] == {"fan-1": 300}
    assert facts["features"] == NAMES
    assert facts["layer"]["inputs"] == facts["columns"] == 6
    assert (facts["window"], facts["score"]) == (1, "distance")
    assert (facts["state"], facts["rows missing"]) == ("watching", 0)
    seen = detector_in(fan_2).progress.seen
    assert facts["flagged"].startswith(f"{seen.flagged} of {seen.rows} rows: ")
    number = r"\d+(\.\d)?"
    band = rf": {number} % \(95 % sure: {number} % to {number} %\)$"
    assert re.search(band, facts["flagged"])
    shown = elmgrove("inspect", fan_2)
    assert shown.code == 0
    for text in ("fan-2.elm", "watching", '{"fan-1": 300}', "speed [m/s]", facts["fingerprint"]):
        assert text in shown.out
    assert facts["others"] == "asks 1 other; events say who knows their like"
    for text in facts:
        assert text in shown.out
    assert facts["others"] in shown.out


def test_inspect_shows_evidence(elmgrove: Elmgrove, fan_1: Path) -> None:
    facts = json.loads(elmgrove("inspect", "fan-1.evidence", "--json").out)
    assert facts["holds"] == "evidence to give away"
    assert (facts["origin"], facts["rows"], facts["admissible"]) == ("fan-1", 300, "yes")
    shown = elmgrove("inspect", "fan-1.evidence").out
    assert "evidence to give away" in shown
    state = json.loads(elmgrove("inspect", fan_1, "--json").out)
    assert facts["fingerprint"] == state["fingerprint"]


def test_inspect_shows_a_classifier_in_whole_numbers(elmgrove: Elmgrove) -> None:
    classifier = json.loads(elmgrove("inspect", GOLDEN / "classifier-1.compact", "--json").out)
    assert classifier["holds"] == "a classifier in whole numbers"
    assert (classifier["classes"], classifier["inputs within"]) == (3, "±2")


def test_inspect_says_why_evidence_would_be_refused(elmgrove: Elmgrove, fan_1: Path) -> None:
    honest = load(Path("fan-1.evidence"), Contribution.from_bytes).evidence
    assert isinstance(honest, Moments)
    sums = (honest.C, honest.s, 0.0 * honest.e)
    lie = Moments(honest.basis, *sums, honest.count, honest.centre)
    save(Path("lie.evidence"), Contribution("liar", 300, (lie,)))
    assert "squares" in json.loads(elmgrove("inspect", "lie.evidence", "--json").out)["admissible"]
    before = fan_1.read_bytes()
    assert "'liar'" in one_clear_line(elmgrove("merge", "-s", fan_1, "lie.evidence"))
    assert fan_1.read_bytes() == before
