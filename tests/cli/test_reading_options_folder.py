"""What other services keep is read by the commands: a file for each sensor, labels as times."""

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in
from support.labelled import BEGIN, FAULTS, NAMES, labelled, write_labelled

ROWS, LABELS = labelled()


def split(rows: np.ndarray, folder: str = "pump") -> Path:
    """Writes a file for each sensor, with the columns ``timestamp`` and ``value``."""
    Path(folder).mkdir()
    for name, column in zip(NAMES, rows.T.tolist(), strict=True):
        times = (BEGIN + timedelta(minutes=place) for place in range(len(column)))
        lines = [f"{time.isoformat()},{value!r}" for time, value in zip(times, column, strict=True)]
        Path(folder, f"{name}.csv").write_text("\n".join(["timestamp,value", *lines]) + "\n")
    return Path(folder)


def spans(path: str, written: str = "%Y-%m-%d %H:%M") -> Path:
    """Writes begin and end of each fault, without names, as Lookout for Equipment has them."""
    lines = [
        f"{BEGIN + timedelta(minutes=fault.first):{written}},"
        f"{BEGIN + timedelta(minutes=fault.end - 1):{written}}"
        for fault in FAULTS
    ]
    Path(path).write_text("\n".join(lines) + "\n")
    return Path(path)


def test_a_folder_is_learned_and_scored_as_the_file_of_all_its_columns(elmgrove: Elmgrove) -> None:
    split(ROWS)
    write_labelled("pump.csv", ROWS)
    for data, state in (("pump", "parts.elm"), ("pump.csv", "whole.elm")):
        given = ("--state", state, "--name", "pump", "--window", 1)
        assert elmgrove("learn", data, *given).code == 0
    parts, whole = (detector_in(name) for name in ("parts.elm", "whole.elm"))
    assert sorted(parts.basis.features or ()) == sorted(NAMES)
    assert parts.learned == whole.learned == len(ROWS)
    ran = elmgrove("score", "pump", "--state", "whole.elm", "--format", "jsonl")
    same = elmgrove("score", "pump.csv", "--state", "whole.elm", "--format", "jsonl")
    scores, expected = (
        [json.loads(line)["score"] for line in one.out.splitlines()] for one in (ran, same)
    )
    assert scores == expected
    assert len(scores) == len(ROWS)


def test_labels_as_times_are_labels(elmgrove: Elmgrove) -> None:
    split(ROWS)
    write_labelled("pump.csv", ROWS, LABELS)
    spans("labels.csv")
    spans("us.csv", "%m/%d/%Y %H:%M")
    given = ("--json", "--columns", "rpm", "--columns", "temp", "--window", "1")
    found = [
        json.loads(elmgrove("evaluate", *case, *given).out)
        for case in (
            ("pump.csv", "--label", "anomaly"),
            ("pump.csv", "--drop", "anomaly", "--label-spans", "labels.csv"),
            ("pump", "--label-spans", "us.csv=%m/%d/%Y %H:%M"),
        )
    ]
    for method in (method for one in found for method in one["methods"]):
        # Columns of a folder are put together in another order of additions.
        method["threshold"] = round(method["threshold"], 9)
    assert found[0] == found[1] == found[2]
    assert found[0]["labelled"] == LABELS[640:].sum()


@pytest.mark.parametrize("said", [("--label", "anomaly"), ("--label-spans", "labels.csv")])
def test_rows_that_are_labelled_anomalous_are_not_learned(
    elmgrove: Elmgrove, said: tuple[str, str]
) -> None:
    write_labelled("pump.csv", ROWS, LABELS if said[0] == "--label" else None)
    spans("labels.csv")
    ran = elmgrove("learn", "pump.csv", "--state", "pump.elm", "--window", 1, *said)
    assert f"Left out {LABELS.sum()} rows that are labelled anomalous." in ran.err
    assert f"pump: learned {(~LABELS).sum()} rows, {(~LABELS).sum()} in all." in ran.err


def test_what_can_not_be_labelled_is_refused(elmgrove: Elmgrove) -> None:
    Path("labels.csv").write_text("2026-03-01,2027-03-01\n")
    Path("plain.csv").write_text("a,b\n1,2\n2,1\n")
    ran = elmgrove("learn", "plain.csv", "--state", "p.elm", "--label-spans", "labels.csv")
    assert "plain.csv: --label-spans needs the time of each row (--time)" in one_clear_line(ran)
    write_labelled("pump.csv", ROWS)
    ran = elmgrove("learn", "pump.csv", "--state", "p.elm", "--label-spans", "labels.csv")
    assert "Error: pump.csv: no rows to learn from" in ran.err
    ran = elmgrove("learn", "pump.csv", "--state", "p.elm", "--label-spans", "none.csv")
    assert "Error: none.csv: No such file or directory" in ran.err
    assert not Path("p.elm").exists()


def test_a_folder_without_rows_is_refused(elmgrove: Elmgrove) -> None:
    Path("pump").mkdir()
    ran = elmgrove("learn", "pump", "--state", "p.elm")
    assert "pump: no file in it ends in .csv" in one_clear_line(ran)
