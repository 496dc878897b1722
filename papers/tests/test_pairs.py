"""Figures 8 to 17: pairs, trials and what is kept of them, on small data and a real server."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from data_sets import DATA, real, write_official
from elmgrove.errors import BadFile
from elmgrove_papers.data import Labelled, har_scaled
from elmgrove_papers.federated import averaged
from elmgrove_papers.figure import Run
from elmgrove_papers.fleet import Meeting, meeting
from elmgrove_papers.ito2021 import baselines, heat_maps, round_by_round
from elmgrove_papers.ito2021.baselines import a_pattern_each, bp_nn3, task
from elmgrove_papers.ito2021.comparison import best, difference, mean
from elmgrove_papers.ito2021.drawing import maps as drawn
from elmgrove_papers.ito2021.drawing import rounds as draw_rounds
from elmgrove_papers.ito2021.heat_maps import ALL, FIVE, digest, har_maps, kept
from elmgrove_papers.ito2021.os_elm import os_elm, three_patterns
from elmgrove_papers.ito2021.round_by_round import CHOICES, Choice, half_of_both
from elmgrove_papers.ito2021.settings import HAR, MNIST
from elmgrove_papers.ito2021.trial import (
    AFTER,
    BEFORE,
    PATTERNS,
    THREE_PATTERNS,
    Maps,
    PairsTrial,
)
from elmgrove_papers.networks import Training, losses
from elmgrove_papers.pairs import Pair
from support.commands import Elmgrove, one_clear_line

Array = NDArray[Any]
WIDTH, PATTERN_ROWS, LABELS = 12, 150, 5


def _rows(label: int, rng: np.random.Generator) -> Array:
    """Rows of a pattern lie along two directions of its own, between −1 and 1."""
    axes = np.random.default_rng(label).normal(size=(3, WIDTH))
    mixed = rng.uniform(-1, 1, (PATTERN_ROWS, 2)) @ axes[1:] + 2 * axes[0]
    return np.tanh(0.4 * mixed + 0.02 * rng.normal(size=mixed.shape))


def _labelled(count: int = LABELS) -> Labelled:
    rng = np.random.default_rng(7)
    rows = np.vstack([_rows(label, rng) for label in range(count)])
    labels = np.repeat(np.arange(count), PATTERN_ROWS)
    names = tuple(f"P_{label}" for label in range(count))
    return Labelled(rows[::2], labels[::2], rows[1::2], labels[1::2], names)


#: Networks so small that a test does not wait for them.
SMALL = replace(HAR, units=6, bp_nn3=Training((8,), 8, 2), bp_nn5=Training((6, 4, 6), 8, 2))


@pytest.fixture(name="small_networks")
def small_networks_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat_maps, "HAR", SMALL)
    monkeypatch.setattr(round_by_round, "HAR", SMALL)
    monkeypatch.setattr(baselines, "ROUNDS", 3)
    monkeypatch.setattr(round_by_round, "QUICK", ("P_0", "P_2", "P_3"))
    monkeypatch.setattr(round_by_round, "ROUNDS", 5)


def _trial(number: int = 0, labels: int = LABELS) -> PairsTrial:
    return PairsTrial.of(_labelled().first(labels).rescaled(-1.0, 1.0), SMALL, number, 10**6)


@given(a=st.integers(0, LABELS - 1), b=st.integers(0, LABELS - 1))
def test_a_pair_learns_its_patterns_once_and_is_tested_with_a_tenth_of_anomalies(
    a: int, b: int
) -> None:
    data, pair = _trial().data, Pair(a, b)
    own, peers = pair.learned(data, 10**6)
    assert not set(own.tolist()) & set(peers.tolist())
    both = np.sort(np.concatenate([own, peers]))
    np.testing.assert_array_equal(both, np.flatnonzero(np.isin(data.train_label, pair)))
    assert set(data.train_label[own].tolist()) == {a}
    assert set(data.train_label[peers].tolist()) == {b}
    assert max(map(len, pair.learned(data, 7))) <= 7
    tested = pair.tested(data)
    normal = np.isin(data.test_label, pair).sum()
    assert len(tested.own) + len(tested.peers) == normal
    assert len(tested.anomalous) == normal // 10
    for row in tested.anomalous:
        assert data.test_label[(data.test == row).all(axis=1)][0] not in pair


def test_splits_differ_from_trial_to_trial_and_are_the_same_each_time() -> None:
    assert (_trial().data.train == _trial().data.train).all()
    assert (_trial().data.train != _trial(1).data.train).any()
    assert len(_trial().data.train) == round(0.8 * LABELS * PATTERN_ROWS)


def test_after_the_update_the_other_pattern_is_normal() -> None:
    found = {model: np.array(one) for model, one in os_elm(_trial(), Run(Path())).items()}
    different = ~np.eye(LABELS, dtype=bool)
    assert all(np.isfinite(one).all() for one in found.values())
    assert found[AFTER][different].mean() > found[BEFORE][different].mean() + 0.05
    assert found[PATTERNS][different].mean() > found[BEFORE][different].mean() + 0.05
    for model in (AFTER, PATTERNS):
        np.testing.assert_array_equal(found[model], found[model].T)
    # Each device is the other's pair as well, with a model of its own.
    assert (found[BEFORE] != found[BEFORE].T).any()


@pytest.fixture(name="server", scope="module")
def server_fixture() -> Iterator[Meeting]:
    with meeting(server=True) as where:
        yield where


@pytest.mark.parametrize("models", [os_elm, three_patterns])
def test_on_a_real_server_it_is_the_same(
    models: Callable[[PairsTrial, Run], Maps], server: Meeting
) -> None:
    served = models(_trial(labels=3), Run(Path(), meeting=server))
    for model, one in models(_trial(labels=3), Run(Path())).items():
        np.testing.assert_allclose(served[model], one, atol=1e-9)


def test_three_patterns_tell_a_pattern_of_three_parts_better() -> None:
    (three,) = three_patterns(_three_parts(), Run(Path())).values()
    one = os_elm(_three_parts(), Run(Path()))[PATTERNS]
    assert mean(three) > mean(one) + 0.1


def _three_parts() -> PairsTrial:
    """Each label is three patterns: of nine, 0 to 2 are the first."""
    whole = _labelled(9)
    train_label, test_label = whole.train_label // 3, whole.test_label // 3
    parts = replace(whole, train_label=train_label, test_label=test_label, names=whole.names[:3])
    return PairsTrial.of(parts.rescaled(-1.0, 1.0), replace(HAR, units=2), 0, 10**6)


def test_networks_know_both_patterns() -> None:
    pytest.importorskip("torch")
    (found,) = bp_nn3(_trial(), Run(Path())).values()
    np.testing.assert_array_equal(found, np.transpose(found))
    assert np.isfinite(found).all()


def test_a_result_is_computed_once_for_each_key(tmp_path: Path) -> None:
    made = list[int]()

    def compute() -> dict[str, Any]:
        made.append(1)
        return {"auc": 0.1 + 0.2}

    for folder, expected in ((None, 2), (tmp_path / "new", 3)):
        assert kept(folder, {"trial": 1}, compute) == kept(folder, {"trial": 1}, compute)
        assert len(made) == expected
    kept(tmp_path / "new", {"trial": 2}, compute)
    assert len(made) == 4
    for path in (tmp_path / "new").iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadFile, match="remove it"):
        kept(tmp_path / "new", {"trial": 1}, compute)


def test_other_data_have_another_digest() -> None:
    X = np.arange(6.0)
    digests = {digest(X), digest(X + 1), digest(X.reshape(2, 3)), digest(X.astype(np.float32))}
    assert len(digests | {digest(X, X)}) == 5
    assert digest(X) == digest(np.arange(12.0)[::2] / 2)


class _Bars:
    """Progress that notes what is at work, and at one point is interrupted."""

    def __init__(self, until: str = "never") -> None:
        self.seen = list[str]()
        self._until = until

    def __call__(self, items: Sequence[Any], text: str) -> Iterator[Any]:
        self.seen.append(text)
        if self._until in text:
            raise KeyboardInterrupt
        yield from items


def write_har(folder: Path) -> None:
    data = _labelled()
    np.savez(
        folder / "uci_har_time265.npz",
        **{"X_train": data.train, "y_train": data.train_label + 1},
        **{"X_test": data.test, "y_test": data.test_label + 1},
        activity_names=np.array(["", *data.names]),
    )


@pytest.mark.usefixtures("small_networks")
def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_har(tmp_path)
    run = Run(tmp_path, quick=True, trials=2, cache=tmp_path / "trials")
    with pytest.raises(KeyboardInterrupt):
        har_maps(replace(run, track=_Bars("BP-NN5")))
    bars = _Bars()
    found = har_maps(replace(run, track=bars))
    first, second = (f"Trial {number} of 2: " for number in (1, 2))
    networks = [f"{first}BP-NN5", f"{first}BP-NN3-FL"]
    fast = [f"{second}{name}" for name in ("OS-ELM", THREE_PATTERNS, "DAEF")]
    assert bars.seen == [*networks, *fast]
    uncached = har_maps(replace(run, cache=None))
    assert (found["mean"], found["auc"]) == (uncached["mean"], uncached["auc"])
    assert [found["mean"][model]["trials"] for model in (AFTER, "BP-NN3")] == [2, 1]


@pytest.mark.usefixtures("small_networks")
def test_networks_have_as_many_trials_as_one_command_says(
    elmgrove: Elmgrove, tmp_path: Path
) -> None:
    """On the official folder, with all 561 features."""
    pytest.importorskip("torch")
    write_official(tmp_path, _labelled(3), 561)
    size = ("--trials", 2, "--networks", 2)
    ran = elmgrove("paper", "ito2021", "har-pairs", "--data", ".", "--quick", *size)
    assert ran.code == 0, ran.err
    found = json.loads((tmp_path / "paper-results-quick/ito2021/har-pairs.json").read_text())
    assert found["features"] == 561
    assert {row["trials"] for row in found["mean"].values()} == {2}
    assert (found["made"]["trials"], found["made"]["networks"]) == (2, 2)
    assert all(np.isfinite(row["auc"]) for row in found["mean"].values())
    refused = elmgrove("paper", "ito2021", "har-pairs", "--data", ".", "--networks", 50)
    assert "--networks 50: there are 10 trials in all; --trials 50" in one_clear_line(refused)


@pytest.mark.usefixtures("small_networks")
def test_each_figure_is_drawn_from_the_same_trials(elmgrove: Elmgrove, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_har(tmp_path)
    for number, model in enumerate(FIVE, start=8):
        ran = elmgrove("paper", "ito2021", f"figure{number}", "--data", ".", "--quick")
        assert ran.code == 0
        assert model in ran.out
        found = json.loads(
            (tmp_path / f"paper-results-quick/ito2021/figure{number}.json").read_text()
        )
        assert list(found["auc"]) == [model]
        assert found["made"]["quick"]
        assert (tmp_path / f"paper-results-quick/ito2021/figure{number}.png").stat().st_size > 1000
    assert len(list((tmp_path / "paper-results-quick/ito2021/trials").glob("*.json"))) == 6


def test_the_best_of_five_is_bold_and_others_where_they_are_above() -> None:
    aucs = dict(zip(ALL, (0.1, 0.9, 0.3, 0.4, 0.5, 0.8, 0.7, 0.6, 0.2), strict=True))
    found = {
        "auc": {model: {"x": {"x": auc}} for model, auc in aucs.items()},
        "best of the five": {"x": {"x": [AFTER]}},
        "features": 2,
        "mean": {model: {"auc": auc, "trials": 1} for model, auc in aucs.items()},
    }
    assert _bold(found) == ["0.900"]
    found["auc"][PATTERNS]["x"]["x"] = 0.95
    assert _bold(found) == ["0.900", "0.950"]


def _bold(found: dict[str, Any]) -> list[str]:
    canvas = Canvas()
    drawn(found, canvas)
    texts = [text for axis in canvas.axes for text in axis.texts]
    return [text.get_text() for text in texts if text.get_weight() == "bold"]


def test_table_3() -> None:
    assert HAR.basis(561).layer.units == 128
    assert MNIST.basis(784).layer.units == 64
    assert (HAR.bp_nn5.hidden, MNIST.bp_nn5.hidden) == ((128, 256, 128), (64, 32, 64))


def test_of_equals_each_is_the_best() -> None:
    maps = {"a": np.array([[0.5, 0.9], [0.1, 0.1]]), "b": np.array([[0.5, 0.8], [0.2, 0.0]])}
    expected = {"x": {"x": ["a", "b"], "y": ["a"]}, "y": {"x": ["b"], "y": ["a"]}}
    assert best(maps, ["x", "y"]) == expected


def test_differences_are_of_the_trials_that_both_have() -> None:
    high = [np.array([[0.0, 0.9], [0.7, 0.0]]), np.array([[0.0, 0.7], [0.7, 0.0]])]
    low = [np.full((2, 2), 0.8), np.full((2, 2), 0.4), np.full((2, 2), 0.0)]
    found = difference({"high": high, "low": low}, "high", "low")
    assert found == {
        **{"mean": pytest.approx(0.15), "standard error": pytest.approx(0.15), "trials": 2},
        **{"lowest": pytest.approx(0.1), "highest": pytest.approx(0.2)},
        **{"pairs above": 2, "pairs": 2},
    }
    assert difference({"high": high[:1], "low": low}, "high", "low")["standard error"] is None
    assert mean(high) == pytest.approx(0.75)


def test_both_ways_to_deal_out_a_pairs_rows_deal_out_all_of_them() -> None:
    trial = _trial(labels=3)
    for pair in trial.pairs:
        for share in (a_pattern_each, half_of_both):
            dealt = np.sort(np.concatenate(share(trial, pair)))
            np.testing.assert_array_equal(
                dealt, np.flatnonzero(np.isin(trial.data.train_label, pair))
            )
    for rows in half_of_both(trial, Pair(0, 2)):
        assert set(trial.data.train_label[rows].tolist()) == {0, 2}


def test_choices_differ_from_what_the_maps_have_in_one_thing_each() -> None:
    found = [(one.shares, one.training.epochs, one.training.rate) for one in CHOICES.values()]
    assert found == [
        (a_pattern_each, 1, 1e-3),
        (a_pattern_each, 5, 1e-3),
        (a_pattern_each, 1, 1e-4),
        (half_of_both, 1, 1e-3),
    ]
    assert all(one.training.hidden == HAR.bp_nn3.hidden for one in CHOICES.values())


@pytest.mark.usefixtures("small_networks")
def test_round_by_round_has_what_the_rounds_of_each_pair_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    small = Training((8,), 8, 1)
    choices = {name: Choice(a_pattern_each, small) for name in ("each", "left out")}
    choices["both"] = Choice(half_of_both, small)
    monkeypatch.setattr(round_by_round, "CHOICES", choices)
    monkeypatch.setattr(round_by_round, "FIVE_EPOCHS", "left out")
    write_har(tmp_path)
    run = Run(tmp_path, quick=True)
    found = round_by_round.rounds(run)
    assert list(found["mean auc"]) == ["each", "both"]
    assert list(found["mean auc"]["each"]) == [f"round {n}" for n in (1, 2, 5)]
    assert found["activities"] == ["P_0", "P_2", "P_3"]
    trial = PairsTrial.of(har_scaled(tmp_path).only(found["activities"]), SMALL, 0, 1000)
    aucs = [_after_two_rounds(trial, small, pair) for pair in trial.pairs if pair.a != pair.b]
    assert found["mean auc"]["each"]["round 2"] == pytest.approx(np.mean(aucs), abs=1e-6)
    canvas = Canvas()
    draw_rounds(found, canvas)
    assert len(canvas.axes[0].lines) == 4


def _after_two_rounds(trial: PairsTrial, training: Training, pair: Pair) -> float:
    rows = pair.learned(trial.data, trial.most)
    tasks = {name: [task(trial, training, pair, rows[n], n)] for n, name in enumerate("AB")}
    (weights,) = averaged(trial.single, tasks, training, 2)
    return pair.tested(trial.data).auc(partial(losses, weights))


@real
def test_after_is_above_before_for_every_pair_of_the_first_four_activities() -> None:
    pytest.importorskip("torch")
    found = har_maps(Run(Path(str(DATA)), quick=True))
    before, after = (found["auc"][model] for model in (BEFORE, AFTER))
    assert all(after[a][b] > before[a][b] for a in after for b in after if a != b)
    means = [found["mean"][model]["auc"] for model in (AFTER, PATTERNS, THREE_PATTERNS)]
    assert means == sorted(means)
    assert found["mean"][PATTERNS]["auc"] > found["mean"]["BP-NN3"]["auc"]
