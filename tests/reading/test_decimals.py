"""Decimal numbers that are read together are what each is by itself."""

from hypothesis import example, given
from hypothesis import strategies as st

from elmgrove.reading.csv import decimals

plain = st.from_regex(r"\A-?([0-9]{1,9}(\.[0-9]{0,6})?|\.[0-9]{1,15})\Z")
any_cell = st.text(alphabet="0123456789.-+eE _xn", max_size=18)


@given(st.lists(st.tuples(plain, plain), min_size=1, max_size=30))
@example([("-0.0", "999999999999999"), (".5", "5."), ("0.1", "-123456789.123456")])
def test_plain_numbers_are_read_to_the_last_bit(rows: list[tuple[str, str]]) -> None:
    text = "".join(f"{a};{b}\n" for a, b in rows).encode()
    read = decimals(text, ";", 2, [1, 0])
    assert read is not None
    assert [list(map(repr, row)) for row in read.tolist()] == [
        [repr(float(b)), repr(float(a))] for a, b in rows
    ]


@given(st.lists(any_cell, min_size=1, max_size=5))
def test_what_is_written_in_another_way_is_left_to_others(cells: list[str]) -> None:
    read = decimals("".join(f"{cell},1\n" for cell in cells).encode(), ",", 2, [0])
    if read is not None:
        assert read[:, 0].tolist() == [float(cell) for cell in cells]


def test_a_line_with_more_or_fewer_cells_is_left_to_others() -> None:
    assert decimals(b"1,2\n3\n4,5\n", ",", 2, [0]) is None
    assert decimals(b"1,2\n3,4,5\n6\n", ",", 2, [0]) is None
    assert decimals(b"1,2\n\n3,4\n", ",", 2, [0]) is None
    assert decimals(b"1,2\n3,4", ",", 2, [0]) is None
    assert decimals(b"", ",", 2, [0]) is None


def test_cells_that_are_not_read_may_hold_anything() -> None:
    read = decimals("1,°C\n2,\n".encode(), ",", 2, [0])
    assert read is not None
    assert read.tolist() == [[1.0], [2.0]]
