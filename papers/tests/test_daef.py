"""DAEF, the baseline: any split gives one model, its regression is the ridge's, and it learns."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from data_sets import DATA, real
from elmgrove_papers.daef import NARROW, RIDGE, WIDE, Daef, DaefDevice, DaefFleet, Regression
from elmgrove_papers.data import Labelled
from elmgrove_papers.figure import Run
from elmgrove_papers.ito2021 import drawing
from elmgrove_papers.ito2021.baselines import daef
from elmgrove_papers.ito2021.beside_daef import beside_daef
from elmgrove_papers.ito2021.settings import MNIST
from elmgrove_papers.ito2021.trial import AFTER, DAEF, PairsTrial
from elmgrove_papers.measures import auc
from elmgrove_papers.mlmg.clients import Client
from elmgrove_papers.mlmg.trial import daef_models, tried
from support.laws import law_examples

Array = NDArray[np.float64]
ROWS, WIDTH = 60, 8


def _rows(seed: int, count: int = ROWS) -> Array:
    """Rows whose singular values are far from each other, so that their vectors are known well."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    return 1.0 + rng.normal(size=(count, WIDTH)) * 2.0 ** -np.arange(WIDTH) @ turned


def _trained(parts: list[Array], hidden: tuple[int, ...] = (4, 6)) -> Daef:
    return DaefFleet([DaefDevice(part) for part in parts]).trained(hidden, seed=1)


@settings(max_examples=law_examples(30), deadline=None)
@given(
    cuts=st.lists(st.integers(0, ROWS), max_size=5),
    order=st.permutations(range(ROWS)),
    hidden=st.sampled_from([(4,), (4, 6), (2, 5, 3)]),
)
def test_any_split_over_devices_gives_the_model_of_all_rows_in_one_place(
    cuts: list[int], order: list[int], hidden: tuple[int, ...]
) -> None:
    X, new = _rows(0), _rows(1)
    places = [0, *sorted(cuts), ROWS]
    split = _trained([X[order[start:end]] for start, end in pairwise(places)], hidden)
    whole = _trained([X], hidden)
    for (W, b), (expected, bias) in zip(split.layers, whole.layers, strict=True):
        np.testing.assert_allclose(W, expected, atol=1e-8 * np.abs(expected).max())
        np.testing.assert_allclose(b, bias, atol=1e-8)
    np.testing.assert_allclose(split.losses(new), whole.losses(new), rtol=1e-7)


def test_the_regression_solves_the_normal_equations() -> None:
    rng = np.random.default_rng(2)
    H, T = rng.normal(size=(3, 20, 5)), rng.normal(size=(3, 20, 4))
    found = Regression.of(list(H), list(T)).weights(RIDGE)
    flat = H.reshape(-1, 5)
    expected = np.linalg.solve(flat.T @ flat + RIDGE * np.eye(5), flat.T @ T.reshape(-1, 4))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_layers_are_those_of_the_method_written_down() -> None:
    X = _rows(3)
    model, rng = _trained([X[:20], X[20:]], (4, 6)), np.random.default_rng(1)
    sigmoid = _sigmoid
    (W, zero), (D, b), (last, bias) = model.layers
    # The encoder: left singular vectors, up to their signs.
    U = np.linalg.svd(X.T, full_matrices=False)[0][:, :4]
    np.testing.assert_allclose(np.abs(W), np.abs(U), atol=1e-10)
    assert (W.max(axis=0) >= -W.min(axis=0)).all()
    assert not zero.any()
    # ELM-AE: of sigmoids of random mixtures, back to the layer before.
    H, limit = sigmoid(X @ W), np.sqrt(6 / 10)
    C = rng.uniform(-limit, limit, (4, 6))
    np.testing.assert_array_equal(b, rng.uniform(-limit, limit, 6))
    G = sigmoid(H @ C + b)
    np.testing.assert_allclose(D.T, _ridge(G, H), atol=1e-8)
    # The last layer: back to the rows.
    Y = np.hstack([sigmoid(H @ D + b), np.ones((ROWS, 1))])
    np.testing.assert_allclose(np.vstack([last, bias]), _ridge(Y, X), atol=1e-6)
    np.testing.assert_allclose(
        model.losses(X), ((X - Y @ np.vstack([last, bias])) ** 2).mean(axis=1), rtol=1e-9
    )


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _ridge(H: Array, T: Array) -> Any:
    return np.linalg.solve(H.T @ H + RIDGE * np.eye(H.shape[1]), H.T @ T)


def test_it_learns_what_lies_on_a_curve() -> None:
    rng = np.random.default_rng(4)
    weights = rng.normal(size=(2, 12))

    def on_the_curve(count: int) -> Array:
        return np.tanh(rng.normal(size=(count, 2)) @ weights) + 0.01 * rng.normal(size=(count, 12))

    train, normal = on_the_curve(400), on_the_curve(200)
    # Each column has the same values, but they do not belong together.
    anomalous = rng.permuted(normal, axis=0)
    fleet = DaefFleet([DaefDevice(train[:150]), DaefDevice(train[150:])])
    for model in fleet.both(6, seed=1).values():
        scores = model.losses(normal)
        assert scores.std() > 0.0
        assert auc(scores, model.losses(anomalous)) > 0.95


def test_fewer_rows_than_units_leave_directions_empty() -> None:
    model = _trained([_rows(5, count=3)], (5, 4))
    W, _ = model.layers[0]
    assert (np.linalg.matrix_rank(W), W.shape) == (3, (WIDTH, 5))
    assert np.isfinite(model.losses(_rows(6))).all()


def test_numbers_sent_are_a_triangle_a_layer_and_what_a_regression_needs() -> None:
    found = DaefFleet([DaefDevice(_rows(7)), DaefDevice(_rows(8, count=3))]).both(4, seed=1)
    triangles = {WIDE: 8 * 9 // 2 + 8 * 9 // 2 + 9 * 10 // 2, NARROW: 36 + 4 * 5 // 2 + 5 * 6 // 2}
    products = {WIDE: 8 * 4 + 9 * WIDTH, NARROW: 4 * 2 + 5 * WIDTH}
    for name, model in found.items():
        assert model.sent == triangles[name] + products[name]


def test_maps_have_what_both_devices_of_a_pair_make_together() -> None:
    rng, labels = np.random.default_rng(12), np.arange(120) % 3
    X = rng.normal(size=(120, 20)) * 0.9 ** np.arange(20) + labels[:, np.newaxis]
    data = Labelled(X[:90], labels[:90], X[90:], labels[90:], ("x", "y", "z"))
    trial = PairsTrial.of(data, replace(MNIST, units=6), 0, 10**6)
    maps = daef(trial, Run(Path()))
    assert list(maps) == list(DAEF)
    for pair in trial.pairs:
        rows = [trial.data.train[part] for part in pair.learned(trial.data, trial.most)]
        models = DaefFleet([DaefDevice(np.vstack(rows))]).both(trial.setting.units, seed=1)
        for name, model in models.items():
            expected = pytest.approx(pair.tested(trial.data).auc(model.losses), abs=0.02)
            assert maps[name][pair.a][pair.b] == maps[name][pair.b][pair.a] == expected


def test_clients_of_mlmg_share_one_model() -> None:
    X = _rows(9)
    clients = [
        Client(name, part, part, _rows(10), _rows(11) + 5.0)
        for name, part in (("a", X[:30]), ("b", X[30:]))
    ]
    models = daef_models(clients, units=4)
    whole = _trained([X], (4, 8))
    np.testing.assert_allclose(models[WIDE].score(X), whole.losses(X), rtol=1e-7)
    assert min(tried(clients, [models[NARROW]] * 2).own) > 0.9


def test_beside_daef_has_means_and_costs(tmp_path: Path) -> None:
    rng, labels = np.random.default_rng(13), np.repeat(np.arange(10), 12)
    pictures = (rng.integers(0, 200, (120, 28, 28)) + 5 * labels[:, None, None]).astype(np.uint8)
    readings, six = rng.uniform(-1.0, 1.0, (72, 265)) * (labels[:72, None] + 1) / 6, labels[:72] + 1
    np.savez(
        tmp_path / "mnist.npz",
        **{"x_train": pictures[::2], "y_train": labels[::2]},
        **{"x_test": pictures[1::2], "y_test": labels[1::2]},
    )
    np.savez(
        tmp_path / "uci_har_time265.npz",
        **{"X_train": readings[::2], "y_train": six[::2]},
        **{"X_test": readings[1::2], "y_test": six[1::2]},
        activity_names=np.array(["", *"abcdef"]),
    )
    found = beside_daef(Run(tmp_path, quick=True))
    assert set(found["HAR, mean"]) >= {AFTER, *DAEF}
    costs = found["cost a device"]
    merge, wide = costs["MNIST, one merge"], costs[f"MNIST, {WIDE}"]
    assert merge["numbers sent"] == 64 * 65 // 2 + 64 * 784 < wide["numbers sent"]
    assert (merge["times that all must be there"], wide["times that all must be there"]) == (0, 3)
    canvas = Canvas()
    drawing.beside_daef(found, canvas)
    assert [axis.get_xlabel() != "" for axis in canvas.axes] == [True, True]


@real
def test_on_activities_it_is_far_above_chance() -> None:
    found = beside_daef(Run(Path(str(DATA)), quick=True))
    assert all(found["HAR, mean"][name]["auc"] > 0.9 for name in DAEF)
