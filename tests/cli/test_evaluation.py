"""``elmgrove evaluate``: what it learns, what it counts, beside whom, and what it refuses."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from elmgrove.cli.evaluate import Evaluation, mahalanobis
from elmgrove.detector.inputs import stacked
from elmgrove.federation.member import Member
from elmgrove.reading.table import Table
from support.commands import Elmgrove, Ran
from support.factories import detector_for, detector_in
from support.labelled import FAULTS, labelled, labelled_pump_rows, write_labelled

ROWS, LABELS = labelled()
CUT = 640


@pytest.fixture(name="data")
def data_fixture(elmgrove: Elmgrove) -> Path:
    return write_labelled("pump.csv", ROWS, LABELS)


def numbers(elmgrove: Elmgrove, *arguments: object) -> dict[str, Any]:
    ran = elmgrove("evaluate", *arguments, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert isinstance(found, dict)
    return found


def test_the_first_part_is_learned_without_what_is_labelled(elmgrove: Elmgrove, data: Path) -> None:
    found = numbers(elmgrove, data, "--label", "anomaly")
    assert found["learned"] == CUT - LABELS[:CUT].sum()
    assert (found["rows"], found["labelled"]) == (len(ROWS) - CUT, LABELS[CUT:].sum())
    own, on, *_ = found["methods"]
    assert own["auc"] > 0.98
    assert on["auc"] > 0.98
    assert own["found"] == own["stretches"] == 3
    assert own["alarmed_outside"] < 0.1
    assert all(delay < 20 for delay in own["delays"])
    assert own["seconds"] == [60.0 * delay for delay in own["delays"]]


def test_a_state_judges_all_rows_and_learns_none(elmgrove: Elmgrove, data: Path) -> None:
    write_labelled("normal.csv", labelled_pump_rows(2000, seed=3))
    given = ("--state", "pump.elm", "--watch-now")
    assert elmgrove("learn", "normal.csv", *given).code == 0
    before = Path("pump.elm").read_bytes()
    detector = detector_in("pump.elm")
    scores = detector.score_many(ROWS)
    found = numbers(elmgrove, data, "--label", "anomaly", "--state", "pump.elm")
    [own, on] = found["methods"]
    assert own["auc"] == pytest.approx(roc_auc_score(LABELS, scores))
    assert own["average_precision"] == pytest.approx(average_precision_score(LABELS, scores))
    flagged = scores > detector.threshold
    assert own["recall"] == pytest.approx(flagged[LABELS].mean())
    assert own["false_alarms"] == pytest.approx(flagged[~LABELS].mean())
    assert own["precision"] == pytest.approx(LABELS[flagged].mean())
    assert own["stretches"] == len(FAULTS)
    detector.observe_many(ROWS)
    assert on["threshold"] == pytest.approx(detector.threshold)
    assert Path("pump.elm").read_bytes() == before
    said = elmgrove("evaluate", data, "--label", "anomaly", "--state", "pump.elm").err
    assert "No Mahalanobis distance: it needs the normal rows to learn (--normal)." in said


def test_a_state_that_flags_every_row_finds_nothing(elmgrove: Elmgrove, data: Path) -> None:
    write_labelled("normal.csv", labelled_pump_rows(2000, seed=3))
    elmgrove("learn", "normal.csv", "--state", "pump.elm")
    elmgrove("tune", "pump.elm", "--threshold", 1e-7)
    given = ("--label", "anomaly", "--state", "pump.elm")
    [own, on] = numbers(elmgrove, data, *given)["methods"]
    for one in (own, on):
        assert (one["found"], one["false_events"]) == (0, 1)
        assert one["alarmed_outside"] == 1.0
    ran = elmgrove("evaluate", data, *given)
    assert ran.out.splitlines()[2].split()[-7:] == ["0", "of", "4", "1", "100", "%", "-"]
    # A window of 1 row and an alarm rule of 5.
    assert "if it opens in it, or at most 6 rows before; any other is false" in ran.err


@pytest.mark.parametrize("with_state", [False, True])
def test_a_rate_and_an_alarm_rule_are_tried(
    elmgrove: Elmgrove, data: Path, with_state: bool
) -> None:
    normal = write_labelled("normal.csv", labelled_pump_rows(2000, seed=3))
    given: tuple[object, ...] = ("--label", "anomaly", "--normal", normal)
    if with_state:
        elmgrove("learn", normal, "--state", "pump.elm")
        given = (*given, "--state", "pump.elm")
    usual = numbers(elmgrove, data, *given)
    tried = numbers(elmgrove, data, *given, "--rate", 0.002, "--alarm", "5/9")
    assert (usual["rate"], tried["rate"], tried["tolerance"]) == (0.01, 0.002, 1 + 9)
    for before, after in zip(usual["methods"], tried["methods"], strict=True):
        assert after["false_alarms"] < before["false_alarms"]
    assert tried["methods"][0]["threshold"] > usual["methods"][0]["threshold"]
    assert "An alarm opens an event: 5 of 9 rows anomalous" in (
        elmgrove("evaluate", data, *given, "--alarm", "5/9").err
    )


def test_a_window_is_tried_where_it_can_be_learned(elmgrove: Elmgrove, data: Path) -> None:
    found = numbers(elmgrove, data, "--label", "anomaly", "--window", 1)
    assert found["rows"] == len(ROWS) - CUT, "every row is judged"
    elmgrove(
        "learn",
        write_labelled("normal.csv", labelled_pump_rows(900)),
        "--state",
        "pump.elm",
        "--window",
        3,
    )
    refusal = "--window: pump.elm has learned windows of 3"
    given = ("--label", "anomaly", "--state", "pump.elm", "--window", 1)
    assert refusal in refused(elmgrove("evaluate", data, *given))


def test_a_state_without_a_threshold_says_so(elmgrove: Elmgrove, data: Path) -> None:
    elmgrove(
        "learn",
        write_labelled("few.csv", labelled_pump_rows(30)),
        "--state",
        "few.elm",
        "--window",
        1,
    )
    ran = elmgrove("evaluate", data, "--label", "anomaly", "--state", "few.elm")
    assert "No threshold, so nothing is flagged: a rate of 1 % takes the scores of 99" in ran.err
    given = ("--label", "anomaly", "--rate", 0.001)
    ran = elmgrove("evaluate", data, *given)
    assert "No threshold" not in ran.err, "the tail of 620 scores is enough for 0.1 %"


def test_the_agent_without_learn_meets_all_rows_as_a_stream(elmgrove: Elmgrove, data: Path) -> None:
    stream = numbers(elmgrove, data, "--label", "anomaly")["methods"][2]
    assert stream["method"] == "Elmgrove, stream"
    # What the agent itself says of the same rows.
    ran = elmgrove(
        *("device", "run", "--source", data, "--drop", "anomaly"),
        *("--state", "agent.elm", "--verdicts", "agent.jsonl"),
    )
    assert ran.code == 0
    told = [json.loads(line) for line in Path("agent.jsonl").read_text().splitlines()]
    # In windows, of which the first behind the cut is judged by nobody.
    flagged = np.array([one["anomalous"] for one in told[CUT:]])
    labels = LABELS[CUT:]
    assert stream["recall"] == pytest.approx(flagged[labels].mean(), abs=0.05)
    assert stream["false_alarms"] == pytest.approx(flagged[~labels].mean(), abs=0.02)


def test_the_distance_learns_the_same_rows_and_windows(elmgrove: Elmgrove) -> None:
    # Each sensor wanders by itself: ten rows show more of it than one.
    wander = np.random.default_rng(1).normal(size=ROWS.shape)
    for before, row in itertools.pairwise(wander):
        row += 0.95 * before
    data = write_labelled("pump.csv", ROWS + 3.0 * wander * ROWS.std(axis=0), LABELS)
    ran = elmgrove("evaluate", data, "--label", "anomaly")
    assert ran.code == 0
    names = [re.split(r"\s+[01]\.", line)[0].strip() for line in ran.out.splitlines()[2:]]
    own = ["Elmgrove", "Elmgrove, learning", "Elmgrove, stream"]
    assert names == [*own, "Mahalanobis", "Mahalanobis × 10"]
    assert "a threshold for the same 1 %; × 10: over windows of 10 rows." in ran.err
    table = write_labelled("table.csv", np.random.default_rng(0).permutation(ROWS), LABELS)
    names = [one["method"] for one in numbers(elmgrove, table, "--label", "anomaly")["methods"]]
    assert names == [*own, "Mahalanobis"], "no windows where the detector has none"


@pytest.mark.parametrize("window", [1, 10])
def test_the_distance_is_measured_on_the_rows_that_the_detector_judges(window: int) -> None:
    learned = labelled_pump_rows(900, seed=3)
    detector = detector_for(learned, window=window)
    train, judged = Table(None, learned, np.arange(900)), Table(None, ROWS, np.arange(len(ROWS)))
    judged.labels = LABELS
    found = Evaluation(Member("pump", detector), judged).mahalanobis(train)[-1]
    scores, limit = mahalanobis(stacked(learned, window), stacked(ROWS, window), 0.01)
    labels = LABELS[window - 1 :]
    assert found.auc == pytest.approx(roc_auc_score(labels, scores), abs=1e-6)
    assert found.recall == pytest.approx((scores > limit)[labels].mean())


def test_a_file_of_normal_rows_is_learned_as_a_whole(elmgrove: Elmgrove, data: Path) -> None:
    write_labelled("normal.csv", labelled_pump_rows(900, seed=3))
    found = numbers(elmgrove, data, "--label", "anomaly", "--normal", "normal.csv")
    assert (found["learned"], found["rows"]) == (900, len(ROWS))
    # Labels that it has as well are heeded.
    write_labelled("normal.csv", *labelled(900))
    found = numbers(elmgrove, data, "--label", "anomaly", "--normal", "normal.csv")
    assert found["learned"] == 880


def refused(ran: Ran) -> str:
    """The text of an error, which may follow notes about the file."""
    assert (ran.code, ran.out) == (1, "")
    last = ran.err.splitlines()[-1]
    assert last.startswith("Error: ")
    return last


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda rows: rows, "no column 'fault'"),
        (lambda rows: rows[:1], "no rows"),
        (lambda rows: [rows[0], *rows[291:311]], "8 normal rows are too few to learn from"),
        (lambda rows: [rows[0], *(row[:-1] + "0" for row in rows[1:])], "no row of 960"),
        (lambda rows: [rows[0], *(row[:-1] + "1" for row in rows[1:])], "every row of 960"),
        (lambda rows: [rows[0], *rows[1:400], rows[400][:-1] + "maybe"], "'maybe' is no label"),
    ],
)
def test_what_cant_be_evaluated_is_said(
    elmgrove: Elmgrove, data: Path, change: Any, text: str
) -> None:
    data.write_text("\n".join(change(data.read_text().splitlines())) + "\n")
    label = "fault" if "fault" in text else "anomaly"
    assert text in refused(elmgrove("evaluate", data, "--label", label))
