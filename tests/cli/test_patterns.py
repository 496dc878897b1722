"""The papers' detectors by one option; patterns are counted wherever a state is shown."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

from elmgrove import Detector, PatternRule
from elmgrove.federation.schemas import Status, read
from elmgrove.server.dashboard.device_page import facts
from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in, trained
from support.fans import NAMES, fan_rows, write_fan_rows


def speeds(count: int, seed: int = 1) -> np.ndarray:
    """Rows of a fan at two speeds, in any order, two thirds of them at the first."""
    slow, fast = fan_rows(seed, 2 * count // 3), fast_rows(seed + 1, count // 3)
    return np.random.default_rng(seed).permutation(np.vstack([slow, fast]))


def fast_rows(seed: int, count: int) -> np.ndarray:
    """Rows that lie elsewhere, and whose columns move otherwise."""
    return fan_rows(seed, count)[:, ::-1] + 9.0


def said(elmgrove: Elmgrove, *command: object) -> str:
    """What a command prints, without the frames of tables."""
    ran = elmgrove(*command)
    assert ran.code == 0
    return " ".join((ran.err + ran.out).replace("│", " ").split())


def test_ito2021_is_one_loss_of_rows_as_they_are(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", speeds(600))
    layer = ["--units", 3, "--activation", "sigmoid"]
    told = said(elmgrove, "learn", "a.csv", "-s", "fan.elm", "--as", "ito2021", *layer)
    assert "Ito et al. 2021: score loss of 3 hidden units (sigmoid), scaling none, window 1" in told
    assert "Patterns" not in told
    detector = detector_in("fan.elm")
    basis = detector.basis
    assert (basis.score, basis.window, basis.scaling.kind) == ("loss", 1, "none")
    assert (basis.layer.units, basis.layer.activation) == (3, "sigmoid")
    assert json.loads(elmgrove("status", "fan.elm", "--json").out)["merged"] is True
    assert said(elmgrove, "inspect", "fan.elm").count("not told apart: one model") == 1


def test_mlmg_names_and_counts_patterns_wherever_a_state_is_shown(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", speeds(600))
    told = said(elmgrove, "learn", "a.csv", "-s", "fan.elm", "--as", "mlmg")
    assert "K-means splits the first 256 rows" in told
    detector = detector_in("fan.elm")
    assert detector.patterns == PatternRule()
    one, two = detector.parts
    counted = f"2, with rows learned: {one.learned} of number 1, {two.learned} of number 2"
    assert {one.learned, two.learned} == {400, 200}
    assert f"Patterns: {counted}." in told
    assert f"patterns {counted}" in said(elmgrove, "status", "fan.elm")
    assert counted in said(elmgrove, "inspect", "fan.elm")
    reported = json.loads(elmgrove("status", "fan.elm", "--json").out)
    assert ("Patterns", counted) in facts(
        read(Status, reported | {"version": "0.2", "sync_seconds": 60.0})
    )


def test_patterns_that_are_not_decided_yet_are_not_counted(elmgrove: Elmgrove) -> None:
    write_fan_rows("a.csv", speeds(60))
    told = said(elmgrove, "learn", "a.csv", "-s", "fan.elm", "--as", "mlmg")
    assert "Patterns: one so far: 196 more rows decide how many there are." in told


def test_scores_say_which_pattern_explains_a_row_best(elmgrove: Elmgrove) -> None:
    rows = pd.DataFrame(speeds(600), columns=NAMES)
    detector = trained(Detector.for_data(rows, window=1, patterns=PatternRule(2)), rows)
    detector.save("fan.elm")
    slow, fast = (1, 2) if detector.parts[0].learned == 400 else (2, 1)
    write_fan_rows("new.csv", np.vstack([fan_rows(5, 20), fast_rows(6, 10)]))
    told = said(elmgrove, "score", "new.csv", "-s", "fan.elm", "--worst", 1)
    first, second = sorted([(slow, 20), (fast, 10)])
    assert (
        "Rows by the pattern that explains them best: "
        f"{first[1]} of number {first[0]}, {second[1]} of number {second[0]}."
    ) in told
    lines = elmgrove("score", "new.csv", "-s", "fan.elm", "-f", "jsonl").out.splitlines()
    by_row = [json.loads(line)["pattern"] for line in lines]
    assert by_row == [slow] * 20 + [fast] * 10
    table = csv.DictReader(
        io.StringIO(elmgrove("score", "new.csv", "-s", "fan.elm", "-f", "csv").out)
    )
    assert [int(row["pattern"]) for row in table] == by_row


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--as", "itor"), "--as: ito2021 or mlmg, not 'itor'"),
        (("--as", "mlmg", "--scaling", "standard"), "--scaling: --as mlmg sets this itself"),
    ],
)
def test_a_paper_that_is_none_or_has_a_say_in_it_is_refused(
    elmgrove: Elmgrove, options: tuple[str, ...], complaint: str
) -> None:
    write_fan_rows("a.csv", speeds(60))
    assert complaint in one_clear_line(elmgrove("learn", "a.csv", "-s", "fan.elm", *options))
