"""Ito 2021 beside the heat maps: losses, latencies, sequential updates and bytes."""

import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from data_sets import DATA, real
from elmgrove.algebra.fed_elms import weighted_mean
from elmgrove.storage import unseal
from elmgrove_papers.data import har
from elmgrove_papers.figure import Run
from elmgrove_papers.ito2021 import costs
from elmgrove_papers.ito2021.costs import (
    FORMAT,
    IN_NUMPY,
    PAPER,
    OnlineNetwork,
    communication,
    packed,
    unpacked,
)
from elmgrove_papers.ito2021.losses import (
    MERGED,
    A,
    B,
    activities,
    before_and_after,
    figure18,
    first_at,
    two_devices,
)
from elmgrove_papers.ito2021.settings import HAR, ROUNDS
from elmgrove_papers.networks import Task, Training, batches, begin, fitted, losses
from support.commands import Elmgrove, one_clear_line

Array = NDArray[Any]
# PyTorch comes with an extra.
backpropagation = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
NAMES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")
WIDTH = 200


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path) -> Path:
    """Six activities on planes of their own, in [−1, 1], as the archive has them."""
    rng = np.random.default_rng(3)
    planes = rng.normal(size=(6, 3, WIDTH))
    labels = np.tile(np.arange(6), 150)
    rows = np.stack([rng.normal(size=3) @ planes[k] + 3 * planes[k, 0] for k in labels])
    rows = np.clip(rows / 15 + 0.01 * rng.normal(size=rows.shape), -1.0, 1.0)
    np.savez(
        tmp_path / "uci_har_time265.npz",
        X_train=rows[:600],
        y_train=labels[:600] + 1,
        X_test=rows[600:],
        y_test=labels[600:] + 1,
        activity_names=["", *NAMES],
    )
    return tmp_path


def _literal(X: Array, ridge: float, rows: Array) -> Array:
    """Losses of U⁻¹V (6), from all rows X in one place."""
    layer = HAR.basis(X.shape[1]).layer
    H = layer(X)
    beta = np.linalg.solve(H.T @ H + ridge * np.eye(H.shape[1]), H.T @ X)
    errors: Array = ((rows - layer(rows) @ beta) ** 2).mean(axis=1)
    return errors


def test_losses_before_and_after_are_those_of_the_equations() -> None:
    own, other, unknown = np.random.default_rng(0).uniform(size=(3, 40, 30))
    fleet = two_devices(HAR.basis(30), own, other)
    ridge = fleet.detector(A).model.ridge
    found = before_and_after(fleet, {"own": own, "unknown": unknown})
    for name, rows in (("own", own), ("unknown", unknown)):
        expected = {
            A: _literal(own, ridge, rows).mean(),
            B: _literal(other, ridge, rows).mean(),
            MERGED: _literal(np.vstack([own, other]), ridge, rows).mean(),
        }
        assert found[name] == pytest.approx(expected, rel=1e-6)


def test_activities_are_scaled_and_split(folder: Path) -> None:
    data = activities(Run(folder))
    assert (len(data.train), len(data.test)) == (720, 180)
    both = np.sort(np.vstack([data.train, data.test]), axis=0)
    whole = har(folder)
    expected = np.sort(np.vstack([whole.train, whole.test]), axis=0)
    np.testing.assert_allclose(2 * both - 1, expected, atol=1e-12)


@backpropagation
def test_figure7_what_both_devices_do_not_know_stays_anomalous(
    elmgrove: Elmgrove, folder: Path
) -> None:
    done = elmgrove("paper", "ito2021", "figure7", "--data", folder, "--output", folder)
    assert done.code == 0
    loss = json.loads((folder / "ito2021/figure7.json").read_text())["loss"]
    assert list(loss) == list(NAMES)
    assert loss["SITTING"][B] > 3 * loss["SITTING"][MERGED]
    assert loss["LAYING"][A] > 3 * loss["LAYING"][MERGED]
    known = max(loss["SITTING"][MERGED], loss["LAYING"][MERGED])
    assert all(loss[name][MERGED] > 3 * known for name in NAMES[:3])
    assert all(loss[name]["BP-NN3"] > 1.2 * loss["SITTING"]["BP-NN3"] for name in NAMES[:3])
    assert (folder / "ito2021/figure7.png").stat().st_size > 1000


def test_figure18_ends_where_the_merge_was_at_once(folder: Path) -> None:
    found = figure18(Run(folder))
    first, *_, last = found["loss"]
    rows = activities(Run(folder))
    count = int((rows.train_label == NAMES.index("LAYING")).sum())
    assert (first["updates"], last["updates"]) == (0, count)
    assert first["sequential"] > 3 * first["merged"]
    assert last["sequential"] == pytest.approx(last["merged"], rel=1e-6)
    crossing = [row["updates"] for row in found["crossing"].values()]
    assert crossing == sorted(crossing)
    assert crossing[-1] <= count


def test_the_crossing_is_the_first_loss_that_is_as_low() -> None:
    losses = [(0, 3.0), (50, 2.0), (100, 1.0), (150, 1.5)]
    assert first_at(losses, 2.0) == 50
    assert first_at(losses, 1.1) == 100
    assert first_at(losses, 0.9) is None


@backpropagation
def test_a_network_one_row_at_a_time_is_the_one_that_is_trained_in_batches_of_one() -> None:
    X = np.random.default_rng(1).uniform(size=(20, 12)).astype(np.float32)
    training = Training((5,), 1, 2)
    task = Task(begin(12, training, (4,)), np.arange(20), (9,))
    online = OnlineNetwork(12, training, seed=4)
    for (row,) in batches(task, training):
        online.learn_one(X[row])
    (expected,) = fitted(X, [task], training)
    for a, b in zip(online.weights(), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert online.score_one(X[0]) == pytest.approx(losses(expected, X[:1])[0], rel=1e-4)


@backpropagation
def test_a_merge_of_networks_is_their_mean_by_rows() -> None:
    training = Training((5,), 1, 1)
    one, other = (OnlineNetwork(12, training, seed) for seed in (1, 2))
    blobs = [packed(10, one.weights()), packed(30, other.weights())]
    expected = [0.25 * a + 0.75 * b for a, b in zip(one.weights(), other.weights(), strict=True)]
    one.replace(weighted_mean(map(unpacked, blobs)))
    for a, b in zip(one.weights(), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)


def test_bytes_are_those_of_what_is_sent() -> None:
    found = communication(Run(Path()))["bytes a device"]
    rows = found["HAR, 561 features"]
    units, n = HAR.units, 561
    sums = 8 * (units * (units + 1) // 2 + units * n)
    hidden = HAR.bp_nn3.hidden[0]
    weights = 4 * (2 * n * hidden + hidden + n)
    merge, once, often = (rows[k] for k in ("one merge", "BP-NN3-FL, a round", "BP-NN3-FL"))
    for way in ("up", "down"):
        assert sums < merge[way] < sums + 2000
        assert weights < once[way] < weights + 2000
        assert often[way] == ROUNDS * once[way]
    assert often["times a merge"] == pytest.approx(2 * often["up"] / (merge["up"] + merge["down"]))


def test_a_message_of_a_network_holds_its_weights_in_float32() -> None:
    weights = begin(12, Training((5,), 1, 1), (1,))
    blob = packed(7, weights)
    fields, arrays = unseal(FORMAT, blob)
    assert fields == {"rows": 7}
    assert all(array.dtype == np.float32 for array in arrays.values())
    rows, back = unpacked(blob)
    assert rows == 7
    for a, b in zip(back, weights, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)


@backpropagation
def test_table4_has_both_sizes_beside_the_papers(
    elmgrove: Elmgrove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "TURNS", 2)
    done = elmgrove(
        *("paper", "ito2021", "table4", "--quick", "--data", tmp_path, "--output", tmp_path)
    )
    assert done.code == 0
    found = json.loads((tmp_path / "ito2021/table4.json").read_text())["milliseconds"]
    assert list(found) == [f"Ñ = {units}" for units in PAPER]
    for rows in found.values():
        assert all(0.0 < row["OS-ELM"] < 1000.0 for row in rows.values())
        assert [name for name, row in rows.items() if IN_NUMPY in row] == ["prediction"]
        once, often = rows["merging"], rows["merging, all rounds"]
        assert often["BP-NN3-FL"] == pytest.approx(ROUNDS * once["BP-NN3-FL"])
        assert often["OS-ELM"] == once["OS-ELM"]
    assert found["Ñ = 64"]["training"]["ratio, paper"] == pytest.approx(0.588 / 0.471)
    assert (tmp_path / "ito2021/table4.png").stat().st_size > 1000


@pytest.mark.parametrize("name", ["figure18", "communication"])
def test_the_others_are_drawn(elmgrove: Elmgrove, folder: Path, name: str) -> None:
    done = elmgrove("paper", "ito2021", name, "--data", folder, "--output", folder)
    assert done.code == 0
    assert (folder / f"ito2021/{name}.png").stat().st_size > 1000


def test_progress_of_work_that_is_no_loop() -> None:
    done, gone = list[int](), list[str]()

    def track(items: Sequence[Any], text: str) -> Iterator[Any]:
        try:
            for item in items:
                yield item
                done.append(item)
        finally:
            gone.append(text)

    with Run(Path(), track=track).ticking(3, "at work") as tick:
        assert done == []
        for expected in ([0], [0, 1], [0, 1, 2], [0, 1, 2]):
            tick()
            assert done == expected
    with pytest.raises(KeyboardInterrupt), Run(Path(), track=track).ticking(3, "stopped"):
        raise KeyboardInterrupt
    assert gone == ["at work", "stopped"]


def test_what_reads_no_data_asks_for_none(
    elmgrove: Elmgrove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ELMGROVE_DATA", raising=False)
    assert elmgrove("paper", "ito2021", "communication").code == 0
    assert (tmp_path / "paper-results/ito2021/communication.json").exists()
    assert "--data or ELMGROVE_DATA" in one_clear_line(elmgrove("paper", "ito2021", "figure18"))


@pytest.mark.parametrize("option", [("--trials", "3"), ("--networks", "3"), ("--server",)])
def test_options_that_a_figure_does_not_have_are_refused(
    elmgrove: Elmgrove, option: tuple[str, ...]
) -> None:
    said = one_clear_line(elmgrove("paper", "ito2021", "communication", *option))
    assert "of ito2021: har-pairs, figure8" in said
    assert "of fed-elms: none" in one_clear_line(elmgrove("paper", "fed-elms", "table1", *option))


@real
def test_figure18_on_real_data_comes_down_to_the_merged_loss() -> None:
    found = figure18(Run(Path(DATA or ""), quick=True))
    assert found["loss"][0]["sequential"] > 50 * found["loss"][0]["merged"]
    assert found["loss"][-1]["sequential"] == pytest.approx(found["loss"][-1]["merged"], rel=1e-6)
