"""Ito 2019, ONLAD and Sunaga 2023: the rules by their equations, and the figures on small data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from elmgrove.algebra import Basis, HiddenLayer
from elmgrove.detector import Detector
from elmgrove_papers.catalogue import figure
from elmgrove_papers.earlier.forgetting import recursion
from elmgrove_papers.earlier.instances import Instances
from elmgrove_papers.figure import Run

Array = NDArray[Any]
WIDTH = 12


def _patterns(count: int, rows: int, seed: int = 0) -> list[Array]:
    """Rows on planes of their own, far apart."""
    rng = np.random.default_rng(seed)
    planes = np.random.default_rng(7).normal(size=(count, 2, WIDTH))
    return [
        rng.normal(size=(rows, 2)) @ plane / 4
        + 2 * plane[0]
        + 0.05 * rng.normal(size=(rows, WIDTH))
        for plane in planes
    ]


def _basis(units: int = 4) -> Basis:
    return Basis(HiddenLayer(WIDTH, units, seed=1), WIDTH, score="loss")


@pytest.mark.parametrize("weight", [1.0, 0.99, 0.9])
def test_forgetting_is_the_recursion_where_the_ridge_is_nothing(weight: float) -> None:
    first, later = _patterns(2, 60)
    basis = _basis()
    detector = Detector.for_basis(basis, ridge=1e-10, forgetting=weight)
    before = Detector.for_basis(basis, ridge=1e-10)
    before.learn_many(first)
    detector.model.reduce_to(before.parts[0])
    H = basis.layer(first)
    P = np.linalg.inv(H.T @ H)
    beta = P @ H.T @ first
    for x in later:
        detector.learn_one(x)
        P, beta = recursion(P, beta, basis.layer(x[np.newaxis]), x[np.newaxis], weight)
    literal = ((later - basis.layer(later) @ beta) ** 2).mean(axis=1)
    np.testing.assert_allclose(detector.score_many(later), literal, rtol=1e-6)


def test_instances_come_with_patterns_and_not_again_when_they_return() -> None:
    made = Instances(_basis())
    for rows in _patterns(3, 200):
        made.learn_many(rows)
    assert (len(made.models), made.added) == (3, 2)
    known = made.score_many(np.vstack(_patterns(3, 50, seed=1)))
    for rows in _patterns(3, 100, seed=2):
        made.learn_many(rows)
    assert made.added == 2
    anomalous = _patterns(5, 50)[4]
    assert made.score_many(anomalous).min() > np.quantile(known, 0.99)


def test_a_row_is_learned_by_the_instance_of_the_lowest_loss_and_few_anomalous_rows_by_none() -> (
    None
):
    one, other, anomalous = _patterns(3, 200)
    made = Instances(_basis())
    made.learn_many(one)
    before = made.models[0].evidence.count
    made.learn_many(anomalous[:20])
    assert made.models[0].evidence.count == before > 150
    two = Instances.of(_basis(), [one, other])
    two.learn_many(other[:30])
    assert [model.evidence.count for model in two.models] == [200, 230]


def test_instances_that_one_model_explains_become_one() -> None:
    (rows,) = _patterns(1, 4000)
    made = Instances.of(_basis(), [rows[:2000], rows[2000:3900]])
    made.learn_many(rows[3900:])
    assert (len(made.models), made.joined) == (1, 1)
    assert 3900 < made.models[0].evidence.count <= 4000


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path) -> Path:
    """HAR and fans in their layouts: six activities; two silent rooms and a noisy one."""
    train, test = _patterns(6, 200), _patterns(6, 20, seed=1)
    labels = [np.repeat(np.arange(6) + 1, count) for count in (200, 20)]
    np.savez(
        tmp_path / "uci_har_time265.npz",
        X_train=np.vstack(train) / 20,
        y_train=labels[0],
        X_test=np.vstack(test) / 20,
        y_test=labels[1],
        activity_names=["", *"abcdef"],
    )
    np.savez(tmp_path / "cooling_fan.npz", **_fans())
    return tmp_path


def _fans() -> dict[str, Any]:
    rng, names = np.random.default_rng(2), list[tuple[str, str, str]]()
    rows = list[Array]()
    for shift, room in enumerate(("silentA", "silentB", "noisy")):
        for damage, off in (("normal", 0.0), ("damage1", 3.0), ("damage2", 4.0)):
            speeds = ("h", "m", "l", "hmlo") if damage == "normal" else ("hmlo",)
            for speed in speeds:
                level = np.repeat(3.0 * np.arange(3), 59) if speed == "hmlo" else None
                level = np.full(60, 3.0 * "hml".index(speed)) if level is None else level
                noise = rng.normal(size=(len(level), WIDTH))
                noise[:, :2] += off
                rows.append(level[:, np.newaxis] + 2.0 * shift * np.eye(WIDTH)[3] + noise)
                names.append((speed, damage, room))
    speed, damage, room = zip(*names, strict=True)
    return {
        "X": np.vstack(rows),
        "rec_id": np.repeat(np.arange(len(rows)), [len(one) for one in rows]),
        "rec_name": [" ".join(name) for name in names],
        "rec_size": ["12cm"] * len(rows),
        "rec_speed": speed,
        "rec_type": damage,
        "rec_env": room,
    }


def _found(paper: str, name: str, folder: Path) -> dict[str, Any]:
    chosen = figure(paper, name)
    found = chosen.numbers(Run(folder, quick=True))
    chosen.draw(found, Canvas())
    return found


def test_instances_run(folder: Path) -> None:
    found = _found("ito2019", "instances", folder)
    assert found["patterns"] == {"HAR": 5, "fan": 6}
    assert found["at the end"]["HAR"]["at most 1"]["models, second time"] == 1


def test_forgetting_helps_where_a_pattern_is_replaced(folder: Path) -> None:
    found = _found("onlad", "forgetting", folder)
    end = found["at the end of a phase, mean over all but the first"]
    newest = {name: row["the newest is normal"] for name, row in end.items()}
    assert newest["φ = 0.9"] > newest["φ = 1"]
    assert newest["φ = 0.9"] > newest["never again"]


def test_retraining_helps_in_another_room(folder: Path) -> None:
    found = _found("sunaga2023", "rooms", folder)
    for row in found["auc"].values():
        assert list(row["distance"]) == ["before", "0", "10", "30", "60", "90"]
        assert row["distance"]["90"] > row["distance"]["0"]
        assert row["distance, new room alone"]["0"] is None
