"""``elmgrove predict``: rows of a file by a model that federate saved."""

import csv
import json
import re
import subprocess
from pathlib import Path

import pytest

from support.agents import Start
from support.commands import Elmgrove, one_clear_line
from support.labelled import COLUMNS, prices, sea, seas, write_csv
from support.places import GOLDEN


@pytest.fixture
def model(elmgrove: Elmgrove, tmp_path: Path) -> Path:
    """A model of three kinds of sea."""
    seas(tmp_path)
    ran = elmgrove(
        "federate", "--data", "fleet", "--target", "sea", "--test", "test.csv", "-o", "sea.elm"
    )
    assert ran.code == 0, ran.err
    return Path("sea.elm")


def test_each_row_is_predicted_beside_what_the_file_says(elmgrove: Elmgrove, model: Path) -> None:
    ran = elmgrove("predict", "test.csv", "--model", model)
    assert ran.code == 0, ran.err
    rows = list(csv.DictReader(ran.out.splitlines()))
    assert [int(row["line"]) for row in rows] == list(range(2, 62))
    right = sum(row["predicted"] == row["actual"] for row in rows)
    assert right > 55
    told = re.search(
        r"([\d.]+) % of 60 rows are predicted right; always '\w+' would be 33.3 %", ran.err
    )
    assert told
    assert float(told[1]) == pytest.approx(100 * right / 60, abs=0.05)


def test_a_file_without_the_target_needs_none(elmgrove: Elmgrove, model: Path) -> None:
    rows = [[row[2], row[0], row[1], "x"] for row in sea("storm", 5)]
    write_csv(Path("new.csv"), ("c", "a", "b", "remark"), rows)
    ran = elmgrove("predict", "new.csv", "--model", model)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == ["line,predicted", *(f"{line},storm" for line in range(2, 7))]
    assert "predicted right" not in ran.err


def test_rows_come_from_standard_input_as_well(start: Start, model: Path) -> None:
    ran = start("predict", "-", "--model", model, stdin=subprocess.PIPE)
    assert ran.told(Path("test.csv").read_bytes()) == 0, ran.log
    assert ran.out.splitlines()[0] == "line,predicted,actual"
    assert len(ran.out.splitlines()) == 61


def test_what_is_unknown_or_missing_is_predicted_and_not_counted(
    elmgrove: Elmgrove, model: Path
) -> None:
    rows = [*sea("calm", 3), [0.0, 0.0, 0.0, "glassy"], [0.0, 0.0, 0.0, ""]]
    write_csv(Path("new.csv"), (*COLUMNS, "sea"), rows)
    ran = elmgrove("predict", "new.csv", "--model", model)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-2:] == ["5,calm,glassy", "6,calm,"]
    assert "1 rows have a sea that was never learned" in ran.err
    assert "new.csv, line 5, column 4 ('sea')" in ran.err
    assert "100.0 % of 3 rows are predicted right" in ran.err


def test_numbers_are_written_in_their_units(elmgrove: Elmgrove) -> None:
    prices(Path("rows.csv"))
    chosen = ("--target", "price", "--activation", "identity", "--units", 3)
    assert elmgrove("federate", "--data", "rows.csv", "--clients", 4, *chosen).code == 0
    ran = elmgrove("predict", "rows.csv", "--model", "federation.elm")
    rows = list(csv.DictReader(ran.out.splitlines()))
    assert len(rows) == 300
    for row in rows:
        assert float(row["predicted"]) == pytest.approx(float(row["actual"]), abs=0.05)
    assert re.search(r"price of 300 rows is off by \S+ \(root mean square\)", ran.err)


def test_how_rows_were_written_is_remembered(elmgrove: Elmgrove, model: Path) -> None:
    for name in ("test.csv", *(f"fleet/{path.name}" for path in Path("fleet").iterdir())):
        text = Path(name).read_text()
        Path(name).write_text(text.replace(",", ";").replace(".", ","))
    federate = ("federate", "--data", "fleet", "--target", "sea", "--decimal", ",")
    assert elmgrove(*federate, "-o", "comma.elm").code == 0
    ran = elmgrove("predict", "test.csv", "--model", "comma.elm")
    assert ran.code == 0, ran.err
    assert "of 60 rows are predicted right" in ran.err


def test_what_does_not_fit_is_one_clear_line(elmgrove: Elmgrove, model: Path) -> None:
    predict = ("predict", "test.csv", "--model")
    text = one_clear_line(elmgrove(*predict, model, "--group", 2))
    assert "--group 2: this model has 1 group" in text
    text = one_clear_line(elmgrove(*predict, GOLDEN / "state-2.elm"))
    assert "this holds 'elmgrove.state', not 'elmgrove.predictor'" in text
    write_csv(Path("new.csv"), ("a", "b"), [[1.0, 2.0]])
    assert "no column 'c'" in one_clear_line(elmgrove("predict", "new.csv", "--model", model))
    write_csv(Path("new.csv"), COLUMNS, [])
    text = one_clear_line(elmgrove("predict", "new.csv", "--model", model))
    assert "no rows to predict" in text


def test_inspect_shows_it(elmgrove: Elmgrove) -> None:
    facts = json.loads(elmgrove("inspect", GOLDEN / "predictor-1.elm", "--json").out)
    assert facts["holds"] == "a model that predicts"
    assert (facts["target"], facts["classes"]) == ("mode", ["off", "on"])
    assert facts["rows learned"] == [7, 9]
    assert facts["layer"]["weights"] == "binary"
