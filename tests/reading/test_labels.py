"""Labels as spans of time."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove import BadInput
from elmgrove.reading.table import read_label_spans, within

NOON = 1772452800.0  # 2026-03-02 12:00 UTC


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ("2026-03-02T12:00:00,2026-03-02T13:00:00\n", ""),
        ("start,end\n2026-03-02 12:00,2026-03-02 13:00\n", ""),
        ('begin,end,code\n\n2026-03-02 12:00,2026-03-02 13:00,"valve, stuck"\n', ""),
        (f"{NOON},{NOON + 3600}\n", ""),
        ("3/2/2026 12:00,3/2/2026 13:00\n", "=%m/%d/%Y %H:%M"),
        ("\ufeff2/3/2026 12:00,2/3/2026 13:00\n", "=%d/%m/%Y %H:%M"),
    ],
)
def test_begin_and_end_are_the_first_two_columns(tmp_path: Path, content: str, form: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content)
    assert read_label_spans(f"{path}{form}") == [(NOON, NOON + 3600.0)]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"3/2/2026 12:00,3/2/2026 13:00\n", "line 1: ['3/2/2026 12:00', '3/2/2026 13:00'] are no"),
        (b"2026-03-02\n", "line 1: ['2026-03-02'] are no begin and end; FILE=FORMAT says"),
        (b"start,end\n2026-03-03,2026-03-02\n", "line 2: ends before it begins"),
        (b"\xff\xfe1", "not text in UTF-8"),
        (b'"' + b"a" * 200_000, "this is no CSV"),
    ],
)
def test_what_is_no_span_is_refused_with_its_line(
    tmp_path: Path, content: bytes, text: str
) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput) as error:
        read_label_spans(str(path))
    assert text in str(error.value)


def test_both_ends_belong_to_a_span() -> None:
    times = np.arange(6.0)
    assert within(times, [(1.0, 2.0), (4.5, 9.0)]).tolist() == [
        False,
        True,
        True,
        False,
        False,
        True,
    ]
    assert not within(times, []).any()
