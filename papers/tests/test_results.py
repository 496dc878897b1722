"""The page of results, the tables in numbers, and what is said about data sets."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from data_sets import write_digits, write_driveset, write_faces, write_fans, write_har, write_sounds
from elmgrove_papers.catalogue import PAPERS, figure
from elmgrove_papers.figure import Run
from elmgrove_papers.remarks import REMARKS, TITLES
from elmgrove_papers.results import publish
from elmgrove_papers.tables import Grid, grids, text
from support.commands import Elmgrove, one_clear_line

MADE = {
    **{"date": "2026-11-16", "seconds": 1.25, "seed": 7, "quick": False},
    **{"machine": "a", "software": "b 1"},
}


def test_each_figure_has_a_remark_and_each_remark_a_figure() -> None:
    names = {(paper, one.name) for paper, figures in PAPERS.items() for one in figures}
    tunings = {(paper, one.tuning.name) for paper in PAPERS for one in PAPERS[paper] if one.tuning}
    assert set(REMARKS) == names | tunings
    assert list(TITLES) == list(PAPERS)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"a": {"x": {"p": 1}, "y": {"q": 2}}}, [Grid("a", {"x": {"p": 1}, "y": {"q": 2}})]),
        ({"a": [{"p": 1}, {"p": 2}]}, [Grid("a", {"1": {"p": 1}, "2": {"p": 2}})]),
        ({"a": {"x": {"p": 1, "paper": {"p": 3}}}}, [Grid("a", {"x": {"p": 1, "paper p": 3}})]),
        ({"a": {"x": {"y": {"p": 1}}}}, [Grid("a", {"x, y": {"p": 1}})]),
        (
            {"a": {"p": 1, "deep": {"y": {"q": [1, 2]}}}},
            [Grid("a", {"": {"p": 1}, "deep, y": {"q": [1, 2]}})],
        ),
        ({"p": 1, "a": {"q": 2}}, [Grid("a", {"": {"q": 2}}), Grid("", {"": {"p": 1}})]),
    ],
)
def test_what_has_values_is_a_row(found: dict[str, Any], expected: list[Grid]) -> None:
    assert list(grids(found)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (0.87612, "0.8761"),
        (0.000216111, "0.0002161"),
        (1544.0, "1,544"),
        (1234567, "1,234,567"),
        (True, "True"),
        (["a", 2], "a, 2"),
        ("auc_own", "auc own"),
    ],
)
def test_values_as_people_read_them(value: Any, expected: str) -> None:
    assert text(value) == expected


def test_a_wide_table_is_printed_in_parts_that_fit(
    elmgrove: Elmgrove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = {f"measure number {k}": k / 7 for k in range(40)}
    rows = {"a": row, "with a long name of its own": row, "few": {"measure number 39": 0.25}}
    wide = replace(figure("ito2021", "communication"), numbers=lambda run: {"x": rows}, draw=_none)
    monkeypatch.setitem(PAPERS, "ito2021", (wide,))
    ran = elmgrove("paper", "ito2021", "communication")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in ran.out
    for value in row.values():
        assert text(value) in ran.out.split()
    # Where a row has no value it is left out.
    assert sum(line.split()[:1] == ["few"] for line in lines) == 1
    assert len(list(Grid("x", rows).fitting(10**6))) == 1


def _none(found: dict[str, Any], canvas: Any) -> None:
    """Draws nothing."""


def _page(folder: Path) -> str:
    publish(folder, folder / "page.md")
    return (folder / "page.md").read_text()


def test_the_page_has_what_was_run_and_names_the_rest(tmp_path: Path) -> None:
    (tmp_path / "mlmg").mkdir()
    found = {"fans": {"alone": {"auc_own": 0.93952}}, "made": MADE}
    (tmp_path / "mlmg/fans.json").write_text(json.dumps(found))
    (tmp_path / "mlmg/table2.json").write_text(json.dumps({"made": MADE | {"quick": True}}))
    made = _page(tmp_path)
    assert "`elmgrove paper mlmg fans`, 2026-11-16, 1.25 s, seed 7; a; b 1." in made
    assert "| fans | auc own |\n|---|---|\n| alone | 0.9395 |" in made
    assert "`elmgrove paper mlmg table2`, **quick run**, " in made
    assert "`elmgrove paper mlmg celeba`: not run." in made


def test_a_row_stands_on_the_page_once_but_single_values_with_each_figure(tmp_path: Path) -> None:
    (tmp_path / "mlmg").mkdir()
    for name, own in (("table2", 0.1), ("fans", 0.2)):
        found: dict[str, Any] = {"mean": {"x": {"auc": 0.5}}, "features": 265}
        found["own"] = {"x": {"auc": 0.7}, "y": {"auc": own}}
        (tmp_path / f"mlmg/{name}.json").write_text(json.dumps(found))
    made = _page(tmp_path)
    assert made.count("| mean | auc |") == 1
    assert made.count("| own | auc |") == 2
    assert made.count("| x | 0.5 |") == made.count("| y | 0.1 |") == made.count("| y | 0.2 |") == 1
    assert made.count("\nfeatures: 265\n") == 2
    assert "run before figures said when" in made


def test_a_page_keeps_what_it_has_of_figures_that_are_not_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mlmg").mkdir()
    for name in ("table2", "fans", "assignment"):
        found = {name: {"a": {"auc": 0.25}, "b": {"auc": 0.5}}, "features": 3, "made": MADE}
        (tmp_path / f"mlmg/{name}.json").write_text(json.dumps(found))
        (tmp_path / f"mlmg/{name}.png").write_bytes(name.encode())
    before = _page(tmp_path)
    (tmp_path / "mlmg/fans.json").write_text(json.dumps({"fans": {"a": {"auc": 0.75}}}))
    (tmp_path / "mlmg/assignment.json").unlink()
    (tmp_path / "mlmg/table2.json").unlink()
    # What is said of a figure is the code's, not the page's.
    monkeypatch.setitem(REMARKS, ("mlmg", "assignment"), "Another remark.")
    after = _page(tmp_path)
    kept, replaced = (re.escape(f"`elmgrove paper mlmg {name}`") for name in ("table2", "fans"))
    section = rf"{kept}.*?(?=###)"
    assert re.search(section, after, re.DOTALL)[0] == re.search(section, before, re.DOTALL)[0]
    assert re.search(rf"{replaced}, run before.*\| a \| 0.75 \|\n\n!\[", after, re.DOTALL)
    assert "Another remark.\n\n| assignment | auc |\n|---|---|\n| a | 0.25 |" in after
    assert after.count("\n| b | 0.5 |\n") == 2
    assert (tmp_path / "page/mlmg/assignment.png").read_bytes() == b"assignment"
    assert _page(tmp_path) == after


def test_the_command_writes_the_page_and_names_a_damaged_file(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    figures = tmp_path / "paper-results/fed-elms"
    figures.mkdir(parents=True)
    assert elmgrove("paper", "results", "--output", tmp_path / "one.md").code == 0
    assert (tmp_path / "one.md").read_text() == _page(tmp_path / "paper-results")
    for damaged in ("{", "[1]"):
        (figures / "figure4.json").write_text(damaged)
        ran = elmgrove("paper", "results", "--output", tmp_path / "other.md")
        assert "figure4.json holds no numbers" in one_clear_line(ran)
        assert not list(tmp_path.glob("other*"))


def test_pictures_stand_beside_the_page(tmp_path: Path) -> None:
    (tmp_path / "fed-elms").mkdir()
    for name in ("figure4.json", "figure4.png", "figure5.png"):
        (tmp_path / "fed-elms" / name).write_bytes(b"{}")
    made = _page(tmp_path)
    # Of figure5 there are no numbers, so nobody knows what its picture shows.
    assert made.count("![") == 1
    (link,) = re.findall(r"!\[.*\]\((.*)\)", made)
    assert (tmp_path / link).read_bytes() == b"{}"


def test_what_was_tuned_stands_behind_its_figure_and_is_kept(tmp_path: Path) -> None:
    (tmp_path / "ito2021").mkdir()
    for name, auc in (("har-pairs", 0.25), ("har-tuning", 0.75)):
        found = {"chosen": {"10-fold": {"after": auc}}, "made": MADE | {"trials": 3}}
        (tmp_path / f"ito2021/{name}.json").write_text(json.dumps(found))
    made = _page(tmp_path)
    commands = ("har-pairs --trials 3`", "har-pairs --tune --trials 3`", "figure8`: not run.")
    places = [made.index(f"`elmgrove paper ito2021 {command}") for command in commands]
    first, second = (made[a:b] for a, b in pairwise(places))
    assert "| 10-fold | 0.25 |" in first
    assert "| 10-fold | 0.75 |" in second
    assert made.count("mnist-pairs --tune`: not run.") == 1
    for path in (tmp_path / "ito2021").glob("*.json"):
        path.unlink()
    assert _page(tmp_path) == made


def test_a_command_is_shown_with_the_trials_it_had(tmp_path: Path) -> None:
    (tmp_path / "ito2021").mkdir()
    found = {"made": MADE | {"trials": 50, "networks": 5}}
    (tmp_path / "ito2021/figure9.json").write_text(json.dumps(found))
    shown = "`elmgrove paper ito2021 figure9 --trials 50 --networks 5`, 2026-11-16"
    assert shown in _page(tmp_path)


def test_all_figures_are_run_once_and_those_without_data_are_named(
    elmgrove: Elmgrove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [one for one in PAPERS["ito2021"] if one.name in ("figure6", "communication")]
    for paper in PAPERS:
        monkeypatch.setitem(PAPERS, paper, tuple(chosen) if paper == "ito2021" else ())
    ran = elmgrove("paper", "all", "--data", ".", "--quick")
    assert ran.code == 0
    assert "ito2021 figure6: left out: UAH-DriveSet is not in" in ran.err
    assert re.search(r"^ito2021 communication: [\d.]+ s$", ran.err, re.M)
    written = (tmp_path / "paper-results-quick/results.md").read_text()
    assert "![§5.4: bytes up and down](results/ito2021/communication.png)" in written
    assert "`elmgrove paper ito2021 figure6`: not run." in written
    again = elmgrove("paper", "all", "--data", ".", "--quick").err
    assert "ito2021 communication: is there already" in again
    (tmp_path / "UAH-DRIVESET-v1/D1/nobody").mkdir(parents=True)
    (tmp_path / "UAH-DRIVESET-v1/D1/nobody/RAW_GPS.txt").write_text("1 2 3")
    damaged = elmgrove("paper", "all", "--data", ".", "--quick")
    assert damaged.code == 1
    assert "ito2021 figure6: left out: " in damaged.err
    # The full run is another one.
    assert "already" not in elmgrove("paper", "all", "--data", ".").err


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ({"quick": True, "trials": 3, "networks": 1}, True),
        ({"quick": True, "trials": 3, "networks": 3}, False),
        ({"quick": True, "trials": 4, "networks": 1}, False),
        ({"quick": False, "trials": 3, "networks": 1}, False),
        ({"quick": True}, False),
    ],
)
def test_a_figure_is_in_a_folder_from_a_run_of_the_same_size(
    tmp_path: Path, made: dict[str, Any], expected: bool
) -> None:
    chosen, run = figure("ito2021", "figure9"), Run(tmp_path, quick=True, trials=3)
    path = tmp_path / "figure9.json"
    for damaged in (None, "", "{}", "[1]", '{"made": {}}'):
        if damaged is not None:
            path.write_text(damaged)
        assert not chosen.is_in(tmp_path, run)
    path.write_text(json.dumps({"made": made}))
    assert chosen.is_in(tmp_path, run) == expected


def test_the_command_says_what_is_there_and_where_to_get_the_rest(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    write_har(tmp_path)
    write_driveset(tmp_path)
    (tmp_path / "mnist.npz").write_bytes(b"no archive")
    ran = elmgrove("paper", "data", "--data", tmp_path)
    assert ran.code == 1, "MNIST is damaged"
    mnist, har, uah, *missing = ran.out.splitlines()
    assert "mnist.npz can't be read" in mnist
    assert har == f"UCI HAR: {tmp_path}/UCI HAR Dataset, 8 + 6 rows of 561 features"
    assert uah.startswith(f"UAH-DriveSet: {tmp_path}/UAH-DRIVESET-v1, 6 drives of 2 drivers")
    assert len(missing) == 3
    assert all("download it from http" in line for line in missing)


def test_the_command_tells_what_the_other_sets_have(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_fans(tmp_path)
    write_faces(tmp_path)
    write_sounds(tmp_path)
    write_digits(tmp_path)
    code, told, _ = elmgrove("paper", "data", "--data", tmp_path)
    assert code == 0, "what is missing is not damaged"
    assert "12 + 10 rows of 784 features" in told
    assert "2 recordings in which a fan runs, 177 rows" in told
    assert "1 celebrities with enough pictures" in told
    assert f"{tmp_path}/dev_data, 2 machines" in told


def test_the_command_lists_what_to_get_where_no_folder_is_named(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMGROVE_DATA", raising=False)
    code, told, _ = elmgrove("paper", "data")
    first, *lines = told.splitlines()
    assert code == 0
    assert first.startswith("--data or ELMGROVE_DATA names the folder")
    assert len(lines) == 6
    assert all(re.search(r": download it from http.* and put it there as", one) for one in lines)


def test_a_set_of_which_a_file_is_missing_is_damaged(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_digits(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    ran = elmgrove("paper", "data", "--data", tmp_path)
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 6
    assert "t10k-labels-idx1-ubyte missing" in ran.out
