"""A folder of files that hold a sensor each is one table."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove import BadInput
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import read_table

START = np.datetime64("2026-03-02T06:00:00")


def write(path: Path, seconds: list[int], columns: dict[str, list[float]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(["timestamp", *columns])]
    for number, second in enumerate(seconds):
        values = [f"{column[number]:g}" for column in columns.values()]
        lines.append(",".join([f"{START + second}", *values]))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files with a column ``value`` each, as Azure has them, a row a minute."""
    minutes = [60 * i for i in range(20)]
    write(tmp_path / "pump" / "flow.csv", minutes, {"value": [float(i) for i in range(20)]})
    write(tmp_path / "pump" / "temp.csv", minutes, {"value": [50.0 + i for i in range(20)]})
    return tmp_path / "pump"


def test_files_of_one_column_are_called_as_their_files(folder: Path) -> None:
    table = read_table(folder)
    assert table.names == ("flow", "temp")
    assert table.rows.tolist() == [[i, 50.0 + i] for i in range(20)]
    assert table.times is not None
    assert np.diff(table.times).tolist() == [60.0] * 19
    assert (table.gaps, table.left_out, table.lines[0]) == ([], 0, 1)
    assert table.notes == [
        "column 1 ('timestamp') is the time of each row, and not learned",
        "2 components were joined by time",
        "column 'flow' counts (0, 1, …) and is learned as a sensor; if it is none: --drop flow",
        "column 'temp' counts (50, 51, …) and is learned as a sensor; if it is none: --drop temp",
    ]


def test_a_folder_in_it_is_one_component_whose_files_follow_each_other(folder: Path) -> None:
    for name, first in {"b": 0, "a": 600}.items():
        seconds = [first + 60 * i for i in range(10)]
        write(folder / "motor" / f"{name}.csv", seconds, {"amp": [first / 600.0] * 10})
    table = read_table(folder)
    assert table.names == ("flow", "amp", "temp")
    assert table.rows[:, 1].tolist() == [0.0] * 10 + [1.0] * 10


def test_columns_of_one_name_are_told_apart_by_their_components(folder: Path) -> None:
    minutes = [60 * i for i in range(20)]
    for part in ("one", "two"):
        write(folder / f"{part}.csv", minutes, {"bar": [1.0] * 20, part: [2.0] * 20})
    assert read_table(folder).names == ("flow", "one.bar", "one", "temp", "two.bar", "two")


def test_the_slowest_says_when_there_are_rows_and_others_give_their_last_value(
    folder: Path,
) -> None:
    fast = list(range(5, 1200, 10))
    write(folder / "fast.csv", fast, {"value": [float(second) for second in fast]})
    table = read_table(folder)
    # At the first minute nothing fast had come, and later it is the value five seconds before.
    assert table.rows[:, table.names.index("fast") if table.names else 0].tolist() == [
        60.0 * i - 5.0 for i in range(1, 20)
    ]
    assert table.left_out == 1
    assert "fast has had no value for long" in table.skipped[0]


def test_rows_are_left_out_where_a_sensor_is_silent_and_there_is_a_gap(folder: Path) -> None:
    silent = [60 * i for i in range(20) if not 5 < i < 15]
    write(folder / "temp.csv", silent, {"value": [1.0] * len(silent)})
    table = read_table(folder)
    # Five usual intervals a value counts; the four after that are left out.
    assert (len(table.rows), table.left_out, table.gaps) == (16, 4, [11])


def test_columns_are_chosen_as_in_a_file(folder: Path) -> None:
    assert read_table(folder, Layout(columns=("temp",))).names == ("temp",)
    assert read_table(folder, Layout(drop=("temp",))).names == ("flow",)
    assert read_table(folder, features=["temp", "flow"]).names == ("temp", "flow")
    with pytest.raises(BadInput, match=r"no column 'rpm' among \['flow', 'temp'\]"):
        read_table(folder, features=["rpm"])


@pytest.mark.parametrize(
    ("name", "content", "layout", "text"),
    [
        ("labels.csv", "timestamp\n2026-03-02\n2026-03-03\n", {}, "no column with a name beside"),
        ("x.csv", "a,b\n1,2\n3,4\n", {}, "x.csv: which column is the time? --time COLUMN"),
        ("x.csv", "timestamp,v\n2026-03-02,1\n", {}, "x: fewer than two rows"),
        ("x.csv", "timestamp,v\n2026-03-02,1\n2026-03-01,2\n", {}, "x: times run back, or files"),
        ("x.csv", "timestamp,v\n2020-03-02,1\n2020-03-03,2\n", {}, "at no time do all have values"),
        ("x.csv", "timestamp,v\n2026-03-02,1\n2026-03-03,?\n", {}, "'?' is not a finite number"),
    ],
)
def test_what_can_not_be_joined_is_refused_by_name(
    folder: Path, name: str, content: str, layout: dict[str, str], text: str
) -> None:
    if name == "x.csv" and "2020" in content:
        content += "".join(f"2020-03-{day:02},1\n" for day in range(4, 20))
    (folder / name).write_text(content)
    with pytest.raises(BadInput) as error:
        read_table(folder, Layout(**layout))
    assert text in str(error.value)


def test_files_of_a_component_have_the_same_columns(folder: Path) -> None:
    write(folder / "motor" / "a.csv", [0, 60], {"amp": [1.0, 2.0]})
    write(folder / "motor" / "b.csv", [120, 180], {"volt": [1.0, 2.0]})
    with pytest.raises(BadInput, match=r"b\.csv: other columns than .*a\.csv"):
        read_table(folder)


def test_a_folder_without_a_file_of_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".hidden.csv").write_text("a\n1\n")
    (tmp_path / "readme.md").write_text("Rows.")
    with pytest.raises(BadInput, match=r"no file in it ends in \.csv"):
        read_table(tmp_path)
