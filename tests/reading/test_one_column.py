"""One column of a file: its cells as they stand, and where they are."""

from pathlib import Path

import pytest

from elmgrove import BadInput
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import has_column, read_column

TEXT = "a,mode,b\n1,auto,2\n\n3, manual ,4\n5,,6\n7,auto,8\n"


def written(path: Path, text: str = TEXT) -> Path:
    path.write_text(text)
    return path


def test_cells_have_the_lines_in_which_they_stand(tmp_path: Path) -> None:
    column = read_column(written(tmp_path / "rows.csv"), "mode", skip_bad=True)
    assert column.cells.tolist() == ["auto", " manual ", "auto"]
    assert column.lines.tolist() == [2, 4, 6]
    assert column.at([2]).where(0).endswith("rows.csv, line 6, column 2 ('mode')")


def test_a_missing_value_is_named_and_never_held(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv")
    with pytest.raises(BadInput, match=r"line 5, column 2 \('mode'\): the value is missing"):
        read_column(path, "mode", Layout(missing="hold"))
    short = written(tmp_path / "short.csv", "a,b,mode\n1,2,x\n1,2\n")
    with pytest.raises(BadInput, match=r"line 3, column 3 \('mode'\): the value is missing"):
        read_column(short, "mode")


def test_other_formats_have_columns_too(tmp_path: Path) -> None:
    objects = written(tmp_path / "rows.jsonl", '{"a": 1, "mode": true}\n{"a": 2, "mode": 3.0}\n')
    assert read_column(objects, "mode").cells.tolist() == [True, 3.0]
    plain = written(tmp_path / "plain.csv", "1;2,5\n3;4,5\n")
    assert read_column(plain, "2", Layout(decimal=",")).cells.tolist() == ["2,5", "4,5"]


def test_a_file_without_the_column_says_which_it_has(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv")
    assert has_column(path, "mode")
    assert not has_column(path, "price")
    with pytest.raises(BadInput, match=r"no column 'price' among \['a', 'mode', 'b'\]"):
        read_column(path, "price")
