"""Which columns are read, and what cells become."""

from pathlib import Path
from typing import Any

import pytest

from elmgrove import BadInput
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import Table, read_table


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Writes a file with this text, and reads it by a layout."""

    def read(text: str, options: dict[str, Any] | None = None, **layout: Any) -> Table:
        (tmp_path / "data.csv").write_text(text)
        return read_table(tmp_path / "data.csv", Layout(**layout), **(options or {}))

    return read


# Columns

WIDE = "t,a,b,c,bad\n2024-05-01,1,2,3,0\n2024-05-02,4,5,6,1\n"


def test_columns_may_be_chosen(table: Any) -> None:
    assert table(WIDE, columns=("c", "a")).rows.tolist() == [[3, 1], [6, 4]]
    assert table(WIDE, label="bad", drop=("b",)).names == ("a", "c")
    with pytest.raises(BadInput, match="no column 'z' among"):
        table(WIDE, columns=("z",))


def test_time_and_label_are_read_and_never_learned(table: Any) -> None:
    read = table(WIDE, time="t", label="bad")
    assert read.names == ("a", "b", "c")
    assert read.times.tolist() == [1714521600.0, 1714608000.0]
    assert read.labels.tolist() == [False, True]
    assert read.notes == []


def test_columns_are_called_by_number_where_there_are_no_names(table: Any) -> None:
    text = "2024-05-01,1,2,0\n2024-05-02,3,4,1\n"
    read = table(text, label="4", drop=("2",))
    assert read.rows.tolist() == [[2], [4]]
    assert read.labels.tolist() == [False, True]
    with pytest.raises(BadInput, match=r"without a line of names; use their numbers"):
        table(text, drop=("heat",))
    with pytest.raises(BadInput, match="no column '9' among"):
        table(text, drop=("9",))


def test_what_a_state_learned_can_not_be_left_out(table: Any) -> None:
    with pytest.raises(BadInput, match="'a' was learned and can't be left out"):
        table(WIDE, {"features": ("a", "b")}, drop=("a",))


def test_what_is_only_remembered_may_be_missing(table: Any) -> None:
    remembered = Layout().after({"time": "t", "label": "bad"})
    read = read_table(_written(table, "a,b\n1,2\n"), remembered)
    assert (read.times, read.labels) == (None, None)
    with pytest.raises(BadInput, match="no column 't'"):
        table("a,b\n1,2\n", time="t")


def _written(table: Any, text: str) -> Path:
    table(text)
    return next(Path(cell) for cell in _paths(table))


def _paths(table: Any) -> list[str]:
    return [str(cell.cell_contents / "data.csv") for cell in table.__closure__]


# Words

MODES = "heat,mode\n1,auto\n2,off\n3, auto \n"


LEARNED = {
    "features": ("heat", "mode=auto", "mode=off"),
    "categories": {"mode": ("auto", "off")},
}


def test_a_word_that_was_never_learned_is_none_of_them_and_said_once(table: Any) -> None:
    read = table("mode,heat\ntest,1\noff,2\ntest,3\n", LEARNED)
    assert read.rows.tolist() == [[1, 0, 0], [2, 0, 1], [3, 0, 0]]
    assert read.notes == ["the word mode=test was never learned: it is none of ['auto', 'off']"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b\n1,2\n", "no column 'mode' among"),
        ("mode,b\n" + "".join(f"m{i},1\n" for i in range(65)), "more than 64 different words"),
        ("mode,b\nauto,1\n,2\n", r"line 3, column 1 \('mode'\): the value is missing"),
    ],
)
def test_words_that_can_not_be_learned_are_refused(table: Any, text: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        table(text, categories=("mode",))


# Missing values

HOLES = "a,b\n,1\n1,2\n,3\nnan,4\nNA,5\n5,6\nnull,\n7,8\n"


def test_a_missing_value_is_refused_with_the_ways_out(table: Any) -> None:
    with pytest.raises(
        BadInput,
        match=r"line 2, column 1 \('a'\): the value is missing \(--missing hold keeps the last "
        r"value\); --drop leaves a named column out, --skip-bad a row",
    ):
        table(HOLES)


def test_a_missing_value_is_held_for_a_few_rows(table: Any) -> None:
    read = table(HOLES, missing="hold", hold_rows=2)
    assert read.rows.tolist() == [[1, 2], [1, 3], [1, 4], [5, 6], [5, 6], [7, 8]]
    assert read.lines.tolist() == [3, 4, 5, 7, 8, 9]
    assert read.left_out == 2
    assert read.gaps == [0, 3]
    assert read.notes == ["4 missing values were filled with the last ones"]


def test_a_value_is_held_from_rows_that_were_read_at_once(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmgrove.reading.csv.CHUNK", 40)
    rows = [f"{i},{i}" for i in range(10, 60)]
    rows[40] = ",50"
    read = table("\n".join(["a,b", *rows]), missing="hold")
    assert read.rows[39:42].tolist() == [[49, 49], [49, 50], [51, 51]]


# Decimal commas


def test_decimal_commas_are_noticed_and_read(table: Any) -> None:
    text = "a;b\n1,5;2\n-0,25;3\n"
    with pytest.raises(BadInput, match=r"'1,5' is not a finite number \(decimal commas: --decima"):
        table(text)
    assert table(text, decimal=",").rows.tolist() == [[1.5, 2], [-0.25, 3]]


def test_a_time_in_another_way_of_writing_is_noticed(table: Any) -> None:
    with pytest.raises(BadInput, match=r"\(a time\? --time COLUMN=FORMAT"):
        table("when;a\n31.12.2024 10:00;1\n")
    read = table("when;a\n31.12.2024 10:00;1\n", time="when=%d.%m.%Y %H:%M")
    assert read.times.tolist() == [1735639200.0]


# What can't be read is named with the option that reads it


def test_a_column_of_words_is_named_with_the_option_that_reads_it(table: Any) -> None:
    words = "a,mode\n1,auto\n2,manual\n"
    hint = "--categories mode of learn reads it as words, --drop mode leaves it out"
    with pytest.raises(BadInput, match=hint):
        table(words)
    with pytest.raises(BadInput, match="'auto' is not a finite number; --drop leaves"):
        table(words, {"features": ["a", "mode"]})
    with pytest.raises(BadInput, match="'auto' is not a finite number; --drop leaves"):
        table("a,mode\n1,2\n1,auto\n")
