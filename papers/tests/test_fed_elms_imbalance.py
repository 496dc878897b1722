"""Imbalanced clients and classes: how rows are thinned, and that all ways learned the same rows."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmgrove_papers.data import Labelled
from elmgrove_papers.fed_elms import imbalance
from elmgrove_papers.fed_elms.digits import Digits, divided
from elmgrove_papers.fed_elms.imbalance import BALANCED, EXACT, FED_ELMS, MEASURES
from elmgrove_papers.fed_elms.settings import layer
from support.commands import Elmgrove


@pytest.fixture(name="whole", scope="module")
def whole_fixture() -> Digits:
    """Ten blobs that overlap, so that it matters how often each was learned."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(10), 1250)
    middles = rng.normal(size=(10, 30)) * np.linspace(2.0, 0.2, 30)
    rows = middles[labels] + 1.2 * rng.normal(size=(len(labels), 30))
    names = tuple(map(str, range(10)))
    data = Labelled(rows[:12000], labels[:12000], rows[12000:], labels[12000:], names)
    return divided(data, clients=6, seed=0)


@pytest.fixture(name="digits", scope="module")
def digits_fixture(whole: Digits) -> Digits:
    return whole.thinned(np.random.default_rng(1))


def test_clients_and_classes_keep_a_share_each_of_their_rows(whole: Digits, digits: Digits) -> None:
    labels = digits.T.argmax(axis=1)
    rng = np.random.default_rng(1)
    r, q = 10.0 ** rng.uniform(-1.0, 0.0, 6), 10.0 ** rng.uniform(-1.0, 0.0, 10)
    for place, (name, rows) in enumerate(digits.clients.items()):
        assert set(rows.tolist()) <= set(whole.clients[name].tolist())
        counts = np.bincount(labels[rows], minlength=10)
        before = np.bincount(labels[whole.clients[name]], minlength=10)
        expected = np.maximum(np.round(before * r[place] * q), before > 0)
        np.testing.assert_array_equal(counts, expected)
    assert len({len(rows) for rows in digits.clients.values()}) == 6
    np.testing.assert_array_equal(digits.initial, whole.initial)


def test_the_sums_are_those_of_all_rows_in_one_place(digits: Digits) -> None:
    made = layer(digits.X.shape[1], 40)
    found = imbalance.learned(digits, made)
    rows = np.concatenate([digits.initial, digits.learned])
    H, T = made(digits.X[rows]), digits.T[rows]
    N = T.sum(axis=0)
    for way, w in ((EXACT, np.ones(len(rows))), (BALANCED, len(rows) / (10 * (T @ N)))):
        beta = np.linalg.solve((H.T * w) @ H + 1e-3 * np.eye(40), (H.T * w) @ T)
        np.testing.assert_allclose(found[way], beta, rtol=1e-5, atol=1e-7)


def test_measures_are_those_of_the_test_rows(digits: Digits) -> None:
    made = layer(digits.X.shape[1], 40)
    found = imbalance.measured(digits, made)
    told = (made(digits.test) @ imbalance.learned(digits, made)[EXACT]).argmax(axis=1)
    right = told == digits.test_label
    recalls = [right[digits.test_label == digit].mean() for digit in range(10)]
    counts = digits.T[digits.learned].sum(axis=0)
    assert found["accuracy"][EXACT] == pytest.approx(100 * right.mean())
    assert found["mean recall"][EXACT] == pytest.approx(100 * np.mean(recalls))
    weighted = np.average(recalls, weights=counts)
    assert found["accuracy at learned frequencies"][EXACT] == pytest.approx(100 * weighted)
    # A digit that only the server has is not the rarest of the clients'.
    rarest = int(np.argmin(np.where(counts > 0, counts, np.inf)))
    assert (counts == 0).any()
    assert found["recall of the rarest"][EXACT] == pytest.approx(100 * recalls[rarest])


def test_what_is_more_accurate_depends_on_how_frequent_classes_are_in_use(digits: Digits) -> None:
    found = imbalance.measured(digits, layer(digits.X.shape[1], 40))
    assert found["mean recall"][BALANCED] > found["mean recall"][EXACT]
    at_learned = found["accuracy at learned frequencies"]
    assert at_learned[EXACT] > at_learned[BALANCED]


def test_where_all_are_alike_balancing_changes_nothing(whole: Digits) -> None:
    labels = whole.T.argmax(axis=1)
    rows = np.concatenate([np.flatnonzero(labels == digit)[:200] for digit in range(10)])
    even = replace(whole, clients={"one": rows[::2], "two": rows[1::2]})
    found = imbalance.learned(even, layer(even.X.shape[1], 40))
    np.testing.assert_allclose(found[BALANCED], found[EXACT], rtol=1e-9, atol=1e-12)


def test_the_figure_runs(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    labels = np.tile(np.arange(10, dtype=np.uint8), 700)
    pictures = rng.integers(0, 120, (10, 8, 8))[labels] + rng.integers(0, 120, (7000, 8, 8))
    parts = {"train": slice(6500), "test": slice(6500, None)}
    pixels = {f"x_{name}": pictures.astype(np.uint8)[rows] for name, rows in parts.items()}
    named = {f"y_{name}": labels[rows] for name, rows in parts.items()}
    np.savez(tmp_path / "mnist.npz", **pixels, **named)
    monkeypatch.setattr(imbalance, "QUICK_SIZES", (2, 4))
    ran = elmgrove(
        *("paper", "fed-elms", "imbalanced", "--data", tmp_path, "--output", "out", "--quick")
    )
    assert ran.code == 0, ran.err
    assert Path("out/fed-elms/imbalanced.png").stat().st_size > 1000
    found = json.loads(Path("out/fed-elms/imbalanced.json").read_text())
    for measure in MEASURES:
        for size in ("2 clients", "4 clients"):
            low, mean, high = (
                found[f"{measure}{name}"][size] for name in (", lowest", "", ", highest")
            )
            for way in (FED_ELMS, EXACT, BALANCED):
                assert low[way] <= mean[way] <= high[way]
    assert found["rows, mean"]["4 clients"]["smallest client"] < 500
    assert found["seeds"] == 2
