"""Labels as times, as other services keep them, are read by the commands."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from support.commands import Elmgrove, one_clear_line
from support.labelled import BEGIN, FAULTS, labelled, write_labelled

ROWS, LABELS = labelled()


def spans(path: str, written: str = "%Y-%m-%d %H:%M") -> Path:
    """Writes begin and end of each fault, without names, as Lookout for Equipment has them."""
    lines = [
        f"{BEGIN + timedelta(minutes=fault.first):{written}},"
        f"{BEGIN + timedelta(minutes=fault.end - 1):{written}}"
        for fault in FAULTS
    ]
    Path(path).write_text("\n".join(lines) + "\n")
    return Path(path)


def test_labels_as_times_are_labels(elmgrove: Elmgrove) -> None:
    write_labelled("pump.csv", ROWS, LABELS)
    spans("labels.csv")
    spans("us.csv", "%m/%d/%Y %H:%M")
    given = ("--json", "--columns", "rpm", "--columns", "temp", "--window", "1")
    found = [
        json.loads(elmgrove("evaluate", *case, *given).out)
        for case in (
            ("pump.csv", "--label", "anomaly"),
            ("pump.csv", "--drop", "anomaly", "--label-spans", "labels.csv"),
            ("pump.csv", "--drop", "anomaly", "--label-spans", "us.csv=%m/%d/%Y %H:%M"),
        )
    ]
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


def test_a_folder_is_refused(elmgrove: Elmgrove) -> None:
    Path("pump").mkdir()
    ran = elmgrove("learn", "pump", "--state", "p.elm")
    assert (ran.code, "columns in several files are joined first" in " ".join(ran.err.split())) == (
        2,
        True,
    )
