"""The first lines: what is read past, delimiters, and names."""

import pytest

from elmgrove.reading.csv import Head
from elmgrove.reading.layout import Layout

NO_DECIMALS = "1,2,3,4\n5,6,7,8\n9,10,11,12"


def head(text: str, **layout: str) -> Head:
    return Head.of(text.split("\n"), Layout(**layout))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "delimiter", "names", "lines"),
    [
        ("sep=;\na;b\n1;2", ";", ["a", "b"], 2),
        ("# made by a logger\n# on Monday\n\na,b\n1,2", ",", ["a", "b"], 4),
        ("# a, b\n1,2\n3,4.5", ",", ["a", "b"], 1),
        ("# two, names, too many\n1,2", ",", None, 1),
        ("a\tb\n1\t2", "\t", ["a", "b"], 1),
        ("a|b\n1|2", "|", ["a", "b"], 1),
        ("1,5;2,5\n3;4", ";", None, 0),
        ("a;b, in l/min\n1;2", ";", ["a", "b, in l/min"], 1),
        ("", ",", None, 1),
    ],
)
def test_what_stands_before_the_rows(
    text: str, delimiter: str, names: list[str] | None, lines: int
) -> None:
    found = head(text)
    assert (found.delimiter, found.lines) == (delimiter, lines)
    assert (found.cells if found.named else None) == names


def test_with_decimal_commas_a_comma_separates_only_where_nothing_else_does() -> None:
    assert head("a;b\n1,5;2", decimal=",").delimiter == ";"
    assert head("x\n1,5", decimal=",").delimiter == ";"
    assert head("a,b\n1.5,2", decimal=",").delimiter == ","
    assert head("a b\n1 2", delimiter=" ").cells == ["a", "b"]


@pytest.mark.parametrize("first", ["1,2,3,4", "0,1,2,3", "01,1,2,3", ",0,1,2", "time,1,2,3"])
def test_numbers_that_count_columns_are_names_where_rows_are_broken_numbers(first: str) -> None:
    found = head(f"{first}\n1.5,2,3,4\n2.5,3,4,5")
    assert found.named == (first != "01,1,2,3")


def test_where_that_is_not_sure_it_is_said() -> None:
    found = head(NO_DECIMALS)
    assert not found.named
    assert found.doubt is not None
    assert "the first line (1, 2, 3, 4) was read as a row" in found.doubt
    assert head("4,3,2,1\n5,6,7,8").doubt is None
    assert head("1,2\n3,4.5").doubt is None, "two numbers are more likely a row"


def test_a_header_of_numbers_is_known_by_what_was_learned() -> None:
    assert Head.of(NO_DECIMALS.split("\n"), Layout(), ("2", "4")).named
    assert head("2024-01-01,1,2,3\n2024-01-02,2,3,4").named is False, "a date is no name"


def test_numbers_that_are_taken_as_names_are_said() -> None:
    found = head("1,2,3,4\n1.5,2,3,4")
    assert found.named
    assert found.doubt is not None
    assert "(1, 2, 3, 4) is taken as the names of the columns; if it is a row, put" in found.doubt
    assert head("time,1,2,3\n5,1.5,2,3").doubt is None


def test_whole_numbers_above_broken_ones_are_questioned() -> None:
    found = head("2019,2020,2021\n2001.5,1999.25,2000.0\n2003,1998.5,2001.5")
    assert not found.named
    assert found.doubt is not None
    assert "(2019, 2020, 2021) holds whole numbers, unlike the rows below" in found.doubt
    assert head("2019,2020\n2001.5,7\n1999.5,8").doubt is None, "the second column has such rows"
    assert head("5,5\n2001.5,7.5").doubt is None, "names are different"
