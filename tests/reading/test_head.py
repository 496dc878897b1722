"""The first lines: what is read past, delimiters, and names."""

import pytest

from elmgrove.reading import Layout
from elmgrove.reading.head import Head

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
