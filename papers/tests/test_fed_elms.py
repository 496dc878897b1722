"""Fed-ELMS' figures: the setting is the paper's, and what they compare is comparable."""

import json
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_sets import real
from elmgrove import BadInput
from elmgrove.algebra.fed_elms import fedavg, first_model, trained
from elmgrove_papers.data import Labelled
from elmgrove_papers.fed_elms import figures
from elmgrove_papers.fed_elms.digits import Digits, divided
from elmgrove_papers.fed_elms.fed_nn import fed_nn
from elmgrove_papers.fed_elms.figures import FREQUENCIES
from elmgrove_papers.fed_elms.settings import FED_ELMS, FED_NN, equal_cost, layer
from elmgrove_papers.fed_elms.trial import centralized, compact, exact, fed_elms
from elmgrove_papers.figure import Run
from support.commands import Elmgrove, one_clear_line
from support.services import unavailable


def _labelled(each: int, width: int = 30) -> Labelled:
    """Ten blobs, most of whose variance lies in a few directions."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(10), each)
    middles = rng.normal(size=(10, width)) * np.linspace(2.0, 0.2, width)
    rows = middles[labels] + 0.7 * rng.normal(size=(len(labels), width))
    cut = len(labels) - 500
    names = tuple(map(str, range(10)))
    return Labelled(rows[:cut], labels[:cut], rows[cut:], labels[cut:], names)


@pytest.fixture(name="digits", scope="module")
def digits_fixture() -> Digits:
    return divided(_labelled(1250), clients=6, seed=0)


def test_clients_have_two_classes_of_500_and_nobody_shares_a_row(digits: Digits) -> None:
    labels = digits.T.argmax(axis=1)
    assert np.bincount(labels[digits.initial]).tolist() == [120] * 10
    for rows in digits.clients.values():
        assert sorted(np.bincount(labels[rows], minlength=10))[-3:] == [0, 500, 500]
    everything = np.concatenate([digits.initial, digits.learned])
    assert len(set(everything.tolist())) == len(everything) == 1200 + 6 * 1000


def test_components_keep_nine_tenths_of_the_variance_and_no_more_than_needed() -> None:
    data = _labelled(1250)
    kept = divided(data, 6, 0).X.var(axis=0, ddof=1)
    whole = data.train.var(axis=0, ddof=1).sum()
    assert kept.sum() / whole >= 0.9 > kept[:-1].sum() / whole
    assert (np.diff(kept) <= 0).all()


def test_the_setting_follows_from_its_seed() -> None:
    data = _labelled(1250)
    one, same, other = (divided(data, 6, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.learned, same.learned)
    assert (one.learned != other.learned).any()


def test_too_few_rows_for_the_clients_are_refused() -> None:
    with pytest.raises(BadInput, match="too few for 56 clients"):
        divided(_labelled(1250), 56, 0)


def test_rounds_share_a_clients_rows_among_them(digits: Digits) -> None:
    parts = [digits.turn("client-00", number, 7) for number in range(1, 8)]
    np.testing.assert_array_equal(np.concatenate(parts), digits.clients["client-00"])


def test_the_sizes_of_table_1_follow_from_equation_14() -> None:
    assert [equal_cost(units, 87, 10) for units in FED_ELMS] == list(FED_NN)


def test_exact_merging_is_one_model_of_the_clients_rows(digits: Digits) -> None:
    made = layer(digits.X.shape[1], 60)
    assert exact(digits, made).accuracy == centralized(digits, made, digits.learned)


def test_fed_elms_is_its_rules_round_by_round(digits: Digits) -> None:
    made = layer(digits.X.shape[1], 60)
    state = first_model(made, digits.X[digits.initial], digits.T[digits.initial])
    for number in (1, 2):
        turns = [digits.rows(digits.turn(name, number, 2)) for name in digits.clients]
        state = fedavg((len(turn[0]), trained(state, made, *turn)) for turn in turns)
    expected = digits.accuracy(made(digits.test) @ state.beta)
    assert fed_elms(digits, made, 2).accuracy == expected


def test_8_bits_cost_little_accuracy_and_a_round_costs_the_same_both_ways(digits: Digits) -> None:
    made = layer(digits.X.shape[1], 60)
    once, twice = compact(digits, made, 1), compact(digits, made, 2)
    assert once.accuracy == pytest.approx(fed_elms(digits, made, 1).accuracy, abs=2.0)
    assert once.bytes_up is not None
    assert twice.bytes_up == pytest.approx(2 * once.bytes_up, rel=0.01)
    assert twice.bytes_down == pytest.approx(2 * once.bytes_up, rel=0.01)


def test_fed_nn_learns_and_sends_a_byte_a_weight(digits: Digits) -> None:
    if find_spec("torch") is None:
        unavailable("needs PyTorch: pip install elmgrove-papers")
    torch = import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = fed_nn(digits, 12, 1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    weights = (digits.X.shape[1] + 1) * 12 + 13 * 10
    assert found.accuracy > 60.0
    assert found.bytes_up is not None
    assert weights < found.bytes_up < weights + 1000
    assert fed_nn(digits, 12, 1).accuracy == found.accuracy


@pytest.fixture(name="folder", scope="module")
def folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small pictures in MNIST's layout, enough for four clients."""
    rng = np.random.default_rng(1)
    labels = np.tile(np.arange(10, dtype=np.uint8), 700)
    pictures = rng.integers(0, 120, (10, 10, 10))[labels] + rng.integers(0, 120, (7000, 10, 10))
    pixels = pictures.astype(np.uint8)
    folder = tmp_path_factory.mktemp("data")
    np.savez(
        folder / "mnist.npz",
        x_train=pixels[:6500],
        y_train=labels[:6500],
        x_test=pixels[6500:],
        y_test=labels[6500:],
    )
    return folder


def test_a_missing_torch_is_said_at_once_with_the_install_line(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "table1" in elmgrove("paper", "fed-elms").out
    # Even where there is no data.
    said = one_clear_line(elmgrove("paper", "fed-elms", "table1", "--data", tmp_path))
    assert "torch: pip install elmgrove-papers" in said


@pytest.fixture(name="few_clients")
def few_clients_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CLIENTS", 4)
    monkeypatch.setattr(figures, "QUICK_CLIENTS", 4)


def _run(elmgrove: Elmgrove, name: str, folder: Path) -> dict[str, Any]:
    ran = elmgrove("paper", "fed-elms", name, "--data", folder, "--output", "out", "--quick")
    assert ran.code == 0, ran.err
    assert Path(f"out/fed-elms/{name}.png").stat().st_size > 1000
    found: dict[str, Any] = json.loads(Path(f"out/fed-elms/{name}.json").read_text())
    assert list(found["accuracy"])[:3] == ["50 units", "100 units", "200 units"]
    return found


@pytest.mark.usefixtures("few_clients")
def test_figure_4_runs(elmgrove: Elmgrove, folder: Path) -> None:
    for row in _run(elmgrove, "figure4", folder)["accuracy"].values():
        assert all(row[f"rounds: {rounds}"] > 90.0 for rounds in FREQUENCIES)


@pytest.mark.usefixtures("few_clients")
def test_figure_5_runs(elmgrove: Elmgrove, folder: Path) -> None:
    for row in _run(elmgrove, "figure5", folder)["accuracy"].values():
        assert row["exact"] == row["centralized, clients' rows"]


@pytest.mark.usefixtures("few_clients")
def test_figure_5_has_the_spread_over_its_seeds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "UNITS", (20,))
    monkeypatch.setattr(figures, "SEEDS", 3)
    found = figures.figure5(Run(folder))
    assert found["seeds"] == 3
    low, mean, high = (found[key]["20 units"] for key in ("lowest", "accuracy", "highest"))
    assert low["Fed-ELMS"] < mean["Fed-ELMS"] < high["Fed-ELMS"]
    assert low["exact − clients' rows"] == high["exact − clients' rows"] == 0.0


@pytest.mark.usefixtures("few_clients")
def test_table_1_runs(elmgrove: Elmgrove, folder: Path) -> None:
    if find_spec("torch") is None:
        unavailable("needs PyTorch: pip install elmgrove-papers")
    found = _run(elmgrove, "table1", folder)
    for name, row in found["accuracy"].items():
        assert min(row[kind] for kind in ("Fed-ELMS", "Fed-ELMS, 8 bit")) > 90.0
        assert all(found["seconds"][name][kind] > 0.0 for kind in ("Fed-ELMS", "Fed-NN", "exact"))
        assert found["bytes a client"][name]["Fed-ELMS, 8 bit, up"] > row["units"] ** 2 / 2
        whole = found["whole numbers"][name]
        assert whole["agreement, %"] > 95.0
        assert whole["largest error"] < whole["tolerance, mean"]
        assert whole["largest error, in deviations"] < 6.0


@real
def test_real_data_keep_what_is_promised(elmgrove: Elmgrove, tmp_path: Path) -> None:
    assert elmgrove("paper", "fed-elms", "figure4", "--quick", "--output", tmp_path).code == 0
    rows = json.loads((tmp_path / "fed-elms/figure4.json").read_text())["accuracy"]
    for row in rows.values():
        for rounds in (1, 10):
            assert row[f"rounds: {rounds}"] > FED_ELMS[row["units"]][0] - 1.5
