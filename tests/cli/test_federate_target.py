"""``elmgrove federate --target``: classes and numbers, tested after every round."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmgrove.rounds.predictor import Predictor
from elmgrove.storage.disk import load
from support.commands import Elmgrove, one_clear_line
from support.labelled import CENTRES, COLUMNS, prices, sea, seas, write_csv
from support.places import ROOT

DIGIT_FILES = ROOT / "examples" / "digits" / "digit_files.py"


def test_clients_that_know_one_class_each_learn_all_of_them(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    fleet = seas(tmp_path)
    # Of three columns binary weights make 16 different units at most: Fed-ELMS can't have copies.
    for rule, weights in (("e2lm", "binary"), ("fedavg", "uniform")):
        ran = elmgrove(
            *("federate", "--data", fleet, "--target", "sea", "--test", "test.csv"),
            *("--rule", rule, "--rounds", 2, "--units", 16),
            *("--weights", weights, "--activation", "relu"),
        )
        assert ran.code == 0, ran.err
        assert "sea is predicted as 3 classes (calm, rough, storm), since it holds words." in (
            ran.err
        )
        told = re.search(
            r"global model: ([\d.]+) % of 60 rows are predicted right; always", ran.out
        )
        assert told, ran.out
        assert float(told[1]) > 95.0
        assert "would be 33.3 %" in ran.out
        assert re.search(r"seconds +accuracy\n +1 .*%\n +2 .*%\n", ran.out)


def test_one_round_of_sums_is_the_model_of_all_rows(elmgrove: Elmgrove, tmp_path: Path) -> None:
    fleet = seas(tmp_path)
    chosen = ("--units", 12, "--activation", "relu", "--seed", 3)
    ran = elmgrove(
        "federate", "--data", fleet, "--target", "sea", "--test", "test.csv", *chosen, "-o", "m.elm"
    )
    made = load(Path("m.elm"), Predictor.from_bytes)
    rows = [row for kind in sorted(CENTRES) for row in sea(kind, 40)]
    X = np.array([row[:3] for row in rows], float)
    T = np.array([[float(row[3] == kind) for kind in sorted(CENTRES)] for row in rows])
    layer = made.basis.layer
    assert (layer.units, layer.activation, layer.seed) == (12, "relu", 3)
    scaling = made.basis.scaling
    mean, deviation = np.array(scaling.shift), np.array(scaling.scale)
    np.testing.assert_allclose(X.mean(axis=0), mean, atol=0.06 * deviation.max())
    np.testing.assert_allclose(X.std(axis=0), deviation, rtol=0.05)
    H = np.maximum((X - mean) / deviation @ layer.alpha + layer.b, 0.0)
    beta = np.linalg.solve(H.T @ H + 1e-3 * np.eye(12), H.T @ T)
    np.testing.assert_allclose(made.models[0].beta, beta, rtol=1e-6, atol=1e-9)
    tested = [row for kind in CENTRES for row in sea(kind, 20, seed=1)]
    Z = (np.array([row[:3] for row in tested], float) - mean) / deviation
    winners = (np.maximum(Z @ layer.alpha + layer.b, 0.0) @ beta).argmax(axis=1)
    right = np.mean([sorted(CENTRES)[w] == row[3] for w, row in zip(winners, tested, strict=True)])
    assert f"{100 * right:.1f} % of 60 rows" in ran.out


@pytest.mark.parametrize("rule", ["e2lm", "fedavg"])
def test_numbers_are_predicted_in_their_own_units(elmgrove: Elmgrove, rule: str) -> None:
    prices(Path("rows.csv"))
    prices(Path("test.csv"), count=80, seed=1)
    ran = elmgrove(
        *("federate", "--data", "rows.csv", "--clients", 5, "--target", "price", "--rule", rule),
        *("--test", "test.csv", "--activation", "identity", "--units", 3, "--rounds", 2),
    )
    assert ran.code == 0, ran.err
    assert "price is predicted as a number, since it holds 296 different numbers" in ran.err
    told = re.search(r"price of 80 rows is off by (\S+) \(root mean square\)", ran.out)
    plain = re.search(r"always their mean would be off by (\S+)\.", ran.out)
    assert told
    assert plain
    # The price is linear in the columns, and so is the model.
    y = np.loadtxt("test.csv", delimiter=",", skiprows=1)[:, 2]
    assert float(plain[1]) == pytest.approx(y.std(), rel=1e-3)
    assert float(told[1]) < 1e-2


@pytest.mark.parametrize(
    ("cells", "said", "what"),
    [
        (["on", "off"], (), "2 classes (off, on), since it holds words."),
        (["1.0", "2", "1"], (), "2 classes (1, 2), since it holds 2 different whole numbers; --pr"),
        (["1", "2"], ("--predict", "number"), "a number, as stated."),
        (["1.5", "2"], (), "a number, since it holds 2 different numbers; --predict classes makes"),
        (["1.5", "2"], ("--predict", "classes"), "2 classes (1.5, 2), as stated."),
        ([str(i) for i in range(21)], (), "a number, since it holds 21 different numbers"),
        ([str(i) for i in range(20)], (), "20 classes (0, 1, 10, 11, 12, …), since it holds 20"),
    ],
)
def test_what_a_column_is_predicted_as_is_decided_by_a_rule_and_said(
    elmgrove: Elmgrove, cells: list[str], said: tuple[str, ...], what: str
) -> None:
    rng = np.random.default_rng(0)
    rows = [[f"{x:.4f}", cells[i % len(cells)]] for i, x in enumerate(rng.normal(size=63))]
    write_csv(Path("rows.csv"), ("a", "y"), rows)
    ran = elmgrove("federate", "--data", "rows.csv", "--clients", 3, "--target", "y", *said)
    assert ran.code == 0, ran.err
    assert f"y is predicted as {what}" in ran.err


def test_groups_of_clients_have_a_model_each(elmgrove: Elmgrove, tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    for index in range(4):
        prices(tmp_path / "fleet" / f"shop-{index}.csv", 90, slope=1.0 - 2 * (index % 2))
    prices(tmp_path / "test.csv", count=50, seed=9)
    ran = elmgrove(
        *("federate", "--data", "fleet", "--target", "price", "--rule", "groups"),
        *("--test", "test.csv", "--activation", "identity", "--units", 3, "--rounds", 2),
    )
    assert ran.code == 0, ran.err
    assert "4 of 4 clients took part. 2 groups of clients were found." in ran.out
    errors = re.findall(r"Test of group \d, of 180 rows: (\S+)", ran.out)
    assert len(errors) == 2
    right, wrong = map(float, errors)
    assert right < 0.01 < 30.0 < wrong
    mean = re.search(r"weighted by rows: price of 50 rows is off by (\S+)", ran.out)
    assert mean
    assert float(mean[1]) == pytest.approx(np.sqrt((right**2 + wrong**2) / 2), rel=1e-3)
    predicted = [
        elmgrove("predict", "test.csv", "--model", "federation.elm", "--group", group).err
        for group in (1, 2)
    ]
    assert "Group 1 of 2 answers, of 180 rows" in predicted[0]
    offs = [float(re.search(r"off by (\S+) \(", said)[1]) for said in predicted]
    assert offs == pytest.approx([right, wrong], rel=1e-2)


def digits(folder: Path) -> np.ndarray:
    """Files of the digits: ten clients with two of them each, and a test; gives the test's rows."""
    subprocess.run([sys.executable, DIGIT_FILES, folder / "digits"], check=True)
    return np.loadtxt(folder / "digits" / "test.csv", delimiter=",", skiprows=1)


def test_the_papers_own_setting_is_had_from_the_command(elmgrove: Elmgrove, tmp_path: Path) -> None:
    tested = digits(tmp_path)
    chosen = (
        *("federate", "--data", "digits/fleet", "--target", "digit", "--test", "digits/test.csv"),
        *("--rule", "fedavg", "--weights", "binary", "--units", 128, "--rounds", 3),
    )
    right = dict[str, float]()
    for scaling in ("none", "standard"):
        ran = elmgrove(*chosen, "--scaling", scaling, "--pca", 0.9, "-o", f"{scaling}.elm")
        assert ran.code == 0, ran.err
        right[scaling] = float(re.search(r"global model: ([\d.]+) %", ran.out)[1])
    assert "principal components of 64 columns keep 90 % of the variance." in ran.err
    assert right["none"] > right["standard"]
    assert right["none"] > 85.0
    made = load(Path("none.elm"), Predictor.from_bytes)
    # By the literal equations, on components of all clients' rows.
    train = [np.loadtxt(path, delimiter=",", skiprows=1) for path in Path("digits/fleet").iterdir()]
    X = np.vstack(train)[:, :-1]
    axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][: made.basis.columns].T
    Z = (tested[:, :-1] - X.mean(axis=0)) @ axes
    found = made.projection(tested[:, :-1])
    np.testing.assert_allclose(np.abs(found), np.abs(Z), atol=1e-6)
    layer = made.basis.layer
    outputs = np.maximum(found @ layer.alpha + layer.b, 0.0) @ made.models[0].beta
    share = np.mean(outputs.argmax(axis=1) == tested[:, -1])
    assert right["none"] == pytest.approx(100.0 * share, abs=0.051)
    # The columns of rows to predict are those of the files, in any order.
    np.savetxt(
        "turned.csv",
        tested[:, ::-1],
        "%g",
        ",",
        header=",".join(["digit", *(f"pixel {i}" for i in range(63, -1, -1))]),
        comments="",
    )
    said = elmgrove("predict", "turned.csv", "--model", "none.elm").err
    assert f"{right['none']:.1f} % of 360 rows are predicted right" in said
    shown = json.loads(elmgrove("inspect", "none.elm", "--json").out)
    assert shown["principal components of"] == "64 columns"


def test_bad_rows_are_named_or_left_out(elmgrove: Elmgrove, tmp_path: Path) -> None:
    fleet = seas(tmp_path)
    with (fleet / "calm.csv").open("a") as file:
        file.write("1.0,2.0,3.0,\n")
    federate = ("federate", "--data", fleet, "--target", "sea", "--test", "test.csv")
    text = one_clear_line(elmgrove(*federate))
    assert "calm.csv, line 42, column 4 ('sea'): the value is missing; --drop" in text
    ran = elmgrove(*federate, "--skip-bad")
    assert ran.code == 0, ran.err
    assert "calm.csv: left out 1 bad row. The first: " in ran.err
    with (tmp_path / "test.csv").open("a") as file:
        file.write("1.0,2.0,3.0,glassy\n")
    (fleet / "calm.csv").write_text((fleet / "calm.csv").read_text().replace("1.0,2.0,3.0,\n", ""))
    text = one_clear_line_after_notes(elmgrove(*federate))
    assert "test.csv, line 62, column 4 ('sea'): no client has rows of the class 'glassy'" in text


def one_clear_line_after_notes(ran: object) -> str:
    """The last line of what was said, which is an error."""
    assert ran.code == 1
    last = ran.err.splitlines()[-1]
    assert last.startswith("Error: ")
    return last


def test_a_word_among_many_numbers_is_a_bad_row(elmgrove: Elmgrove) -> None:
    prices(Path("rows.csv"), 60)
    with Path("rows.csv").open("a") as file:
        file.write("1.0,2.0,cheap\n")
    federate = ("federate", "--data", "rows.csv", "--clients", 3, "--target", "price")
    text = one_clear_line_after_notes(elmgrove(*federate))
    assert "rows.csv, line 62, column 3 ('price'): 'cheap' is not a finite number" in text
    ran = elmgrove(*federate, "--skip-bad")
    assert ran.code == 0, ran.err
    assert "Left out 1 rows whose price is no number." in ran.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--target", "sea", "--drop", "sea"), "is read by itself"),
        (("--target", "wind"), "no column 'wind' among"),
        (("--predict", "classes"), "there is none"),
        (("--pca", 0.9), "--pca needs --target"),
        (("--target", "sea", "--pca", 0.0), "a share above 0, up to 1, not 0"),
        (("--target", "sea", "--predict", "number"), "'calm' is not a finite number"),
        (("--target", "sea", "--activation", "cosine"), "activation must be one of"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(
    elmgrove: Elmgrove, tmp_path: Path, options: tuple[object, ...], reason: str
) -> None:
    fleet = seas(tmp_path)
    assert reason in one_clear_line_after_notes(elmgrove("federate", "--data", fleet, *options))


def test_a_target_needs_rows_that_have_it(elmgrove: Elmgrove, tmp_path: Path) -> None:
    assert "--target needs --data" in one_clear_line(elmgrove("federate", "--target", "digit"))
    fleet = seas(tmp_path)
    (fleet / "rough.csv").unlink()
    (fleet / "storm.csv").unlink()
    text = one_clear_line(elmgrove("federate", "--data", fleet, "--target", "sea"))
    assert "every 'sea' is 'calm': nothing to tell apart" in text


def test_an_empty_file_is_a_client_without_rows(elmgrove: Elmgrove, tmp_path: Path) -> None:
    fleet = seas(tmp_path)
    (fleet / "adrift.csv").write_text("")
    write_csv(fleet / "new.csv", ("sea", *COLUMNS[::-1]), [])
    ran = elmgrove("federate", "--data", fleet, "--target", "sea", "--test", "test.csv")
    assert ran.code == 0, ran.err
    assert "3 of 5 clients took part" in ran.out
    assert "Left out adrift, new: in round 1, nothing new" in ran.err


def test_columns_are_found_by_name_in_any_order(elmgrove: Elmgrove, tmp_path: Path) -> None:
    fleet = seas(tmp_path)
    federate = ("federate", "--data", fleet, "--target", "sea", "--test", "test.csv", "-o")
    assert elmgrove(*federate, "one.elm").code == 0
    for path in (fleet / "rough.csv", tmp_path / "test.csv"):
        lines = [line.split(",") for line in path.read_text().splitlines()]
        path.write_text("".join(",".join(cells[::-1]) + "\n" for cells in lines))
    assert elmgrove(*federate, "other.elm").code == 0
    one, other = (load(Path(f"{name}.elm"), Predictor.from_bytes) for name in ("one", "other"))
    np.testing.assert_allclose(one.models[0].beta, other.models[0].beta, rtol=1e-9)
