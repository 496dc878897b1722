"""Columns that are no sensors: left out where it is sure, else said."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.reading.layout import Layout
from elmgrove.reading.table import Table, read_table

RNG = np.random.default_rng(0)
SENSOR = RNG.normal(50.0, 1.0, 200).round(3)
FIRST = {
    "counts": np.arange(200),
    "epoch": 1714564800 + 10 * np.arange(200),
    "grows": np.cumsum(RNG.uniform(0.1, 0.9, 200)).round(3),
    "sensor": RNG.normal(0.0, 1.0, 200).round(3),
}


@pytest.fixture
def with_first(tmp_path: Path) -> Any:
    """Reads a table whose first column is called and filled like this."""

    def read(name: str, kind: str, layout: Layout | None = None, **options: Any) -> Table:
        lines = [f"{a},{b}" for a, b in zip(FIRST[kind], SENSOR, strict=True)]
        (tmp_path / "data.csv").write_text("\n".join([f"{name},heat", *lines]))
        return read_table(tmp_path / "data.csv", layout, **options)

    return read


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_index_of_pandas_is_left_out_and_that_is_said(with_first: Any, name: str) -> None:
    read = with_first(name, "counts")
    assert read.names == ("heat",)
    assert read.notes == [f"column 1 ({name!r}) counts the rows, and is left out"]
    assert with_first("", "sensor").names == ("", "heat")


def test_seconds_since_1970_in_a_column_called_like_a_time_are_the_time(with_first: Any) -> None:
    read = with_first("timestamp", "epoch")
    assert read.names == ("heat",)
    assert read.times.tolist() == FIRST["epoch"].tolist()
    assert read.notes == ["column 1 ('timestamp') is the time of each row, and not learned"]
    assert with_first("timestamp", "sensor").times is None


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("id", "counts", "column 'id' counts (0, 1, …) .* --drop id"),
        ("reading", "epoch", "column 'reading' is a clock .* --time reading"),
        ("uptime", "grows", "column 'uptime' only grows.* --drop uptime"),
    ],
)
def test_what_may_be_no_sensor_is_learned_and_said(
    with_first: Any, name: str, kind: str, said: str
) -> None:
    read = with_first(name, kind)
    assert read.names == (name, "heat")
    [note] = read.notes
    first, way_out = said.split(" .* " if " .* " in said else ".* ")
    assert note.startswith(first)
    assert note.endswith(way_out)


def test_a_sensor_is_not_doubted(with_first: Any) -> None:
    assert with_first("flow", "sensor").notes == []


def test_what_was_learned_is_not_doubted_again(with_first: Any) -> None:
    read = with_first("id", "counts", features=("id", "heat"))
    assert read.names == ("id", "heat")
    assert read.notes == []


def test_what_was_said_is_done(with_first: Any) -> None:
    assert with_first("id", "counts", Layout(drop=("id",))).names == ("heat",)
    assert with_first("reading", "epoch", Layout(time="reading")).names == ("heat",)
    assert with_first("ts", "epoch", Layout(columns=("ts", "heat"))).names == ("ts", "heat")
