"""MLMG's figures: what they measure is right, and they hold on the real data where it is."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from sklearn.metrics import f1_score, precision_score, recall_score

from data_sets import real, write_faces, write_sounds
from elmgrove import BadInput
from elmgrove_papers.catalogue import PAPERS, figure
from elmgrove_papers.data import Labelled
from elmgrove_papers.figure import Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.measures import Decisions, auc
from elmgrove_papers.mlmg import rules
from elmgrove_papers.mlmg.clients import (
    CASES,
    QUANTILE,
    RIDGE,
    RULE,
    UNITS,
    Client,
    basis,
    digits,
    rare_together,
    third_left_out,
)
from elmgrove_papers.mlmg.fans import LATE
from elmgrove_papers.mlmg.matching import matched
from elmgrove_papers.mlmg.parameters import by_parameters
from elmgrove_papers.mlmg.table2 import federation_rows, printed_rows
from elmgrove_papers.mlmg.trial import lowest_loss, tried
from support.commands import Elmgrove, one_clear_line


def test_decisions_are_those_of_scikit_learn_with_normal_as_the_positive_class() -> None:
    rng = np.random.default_rng(0)
    normal, anomalous = rng.normal(size=90), rng.normal(1.0, size=10)
    made = Decisions.of(normal, anomalous, 1.0)
    truth = np.repeat([1, 0], [90, 10])
    taken = (np.concatenate([normal, anomalous]) <= 1.0).astype(int)
    expected = [score(truth, taken) for score in (precision_score, recall_score, f1_score)]
    assert [made.precision, made.recall, made.f_score] == pytest.approx(expected)
    assert made.accuracy == pytest.approx((truth == taken).mean())


def test_a_detector_that_never_alarms_reaches_what_the_paper_is_compared_with() -> None:
    silent = Decisions.of(np.zeros(9000), np.zeros(1000), 1.0)
    assert silent.f_score == pytest.approx(0.947, abs=5e-4)
    assert (silent.precision, silent.recall) == (0.9, 1.0)


def test_auc_counts_pairs() -> None:
    assert auc(np.array([1.0, 3.0]), np.array([2.0, 4.0])) == 0.75


def _labelled(count: int = 120) -> Labelled:
    """Rows of ten patterns on planes of their own, two thirds to learn; no client knows 9."""
    rng = np.random.default_rng(1)
    planes = rng.normal(size=(10, 2, 20))
    labels = np.tile(np.arange(10), count)
    rows = np.stack([rng.normal(size=2) @ planes[k] + 4 * planes[k, 0] for k in labels])
    rows += 0.05 * rng.normal(size=rows.shape)
    names = tuple(str(k) for k in range(10))
    part = len(rows) * 2 // 3
    return Labelled(rows[:part], labels[:part], rows[part:], labels[part:], names)


def test_clients_get_their_digits_and_a_tenth_of_anomalies() -> None:
    data = _labelled()
    for case, patterns in CASES.items():
        clients = digits(data, case, Run(Path()))
        assert [len(client.train) for client in clients] == [80 * len(k) for k in patterns]
        for client in clients:
            total = len(client.own) + len(client.rare)
            assert len(client.rare) / total == pytest.approx(0.1, abs=0.02)
            assert len(client.own) + len(client.peers) == 9 * 40


def _client(own: int, anomalous: int, item: int = 1) -> Client:
    rows = [np.zeros((count * item, 2)) for count in (3, own, own, anomalous)]
    return Client(f"{own}-{anomalous}", *rows, item)


def test_few_test_items_have_a_tenth_of_anomalies_together() -> None:
    """The paper's CelebA: 121 smiles and 14 others, from 100 clients with one smile or two."""
    clients = rare_together([_client(1 + (k < 21), 2 + k % 5) for k in range(100)])
    assert sum(len(client.own) for client in clients) == 121
    assert sum(len(client.rare) for client in clients) == 14
    assert all(len(client.rare) <= len(client.anomalies) for client in clients)
    assert max(len(client.rare) for client in clients) <= 3, "spread over the clients"
    assert rare_together(clients) == clients, "drawn with a seed"


def test_where_anomalies_are_fewer_than_a_tenth_all_count() -> None:
    clients = rare_together([_client(40, 1, item=2), _client(40, 1, item=2)])
    assert [len(client.rare) for client in clients] == [2, 2]


def _drawn(name: str, items: int, item: int, rng: np.random.Generator) -> Client:
    """Recordings of a few rows each, on a plane of their own with noise."""
    plane = np.random.default_rng(len(name)).normal(size=(2, 20))
    parts = [
        (rng.normal(size=(count * item, 2)) @ plane + 0.1 * rng.normal(size=(count * item, 20)))
        for count in (items, 30, 30)
    ]
    return Client(name, *parts, rng.normal(size=(10 * item, 20)) * 3.0, item)


@pytest.mark.parametrize("item", [1, 4])
@pytest.mark.parametrize(("items", "out"), [(1, []), (2, [1]), (7, [1, 4])])
def test_every_third_item_is_left_out_whole(item: int, items: int, out: list[int]) -> None:
    whole = _drawn("one", items, item, np.random.default_rng(3))
    client = third_left_out(whole)
    each = whole.train.reshape(items, item, 20)
    np.testing.assert_array_equal(client.left_out.reshape(-1, item, 20), each[out])
    np.testing.assert_array_equal(client.train.reshape(-1, item, 20), np.delete(each, out, axis=0))


def test_with_few_recordings_normal_ones_are_not_refused() -> None:
    """By what was learned the threshold is next to nothing, and every recording is above it."""
    rng = np.random.default_rng(4)
    clients = [_drawn(name, 18, 4, rng) for name in ("one", "other", "third.")]
    made = basis("mnist", 20)
    learned = federation_rows(clients, made, (RULE,))["Alone"]
    left_out = federation_rows(list(map(third_left_out, clients)), made, (RULE,))
    assert min(learned["auc_own"], left_out["Alone"]["auc_own"]) > 0.99
    assert learned["recall"] < 0.3
    for row in left_out.values():
        assert row["recall"] > 0.6
    assert left_out["Alone"]["precision"] > 0.95


def test_the_threshold_is_of_rows_that_the_model_did_not_learn() -> None:
    client = third_left_out(_drawn("one", 30, 2, np.random.default_rng(6)))
    made = basis("mnist", 20)
    H = made.layer(client.train)
    beta = np.linalg.solve(H.T @ H + RIDGE * np.eye(H.shape[1]), H.T @ client.train)

    def losses(rows: Any) -> Any:
        return np.square(rows - made.layer(rows) @ beta).mean(axis=1).reshape(-1, 2).mean(axis=1)

    threshold = np.quantile(losses(client.left_out), QUANTILE)
    expected = Decisions.of(losses(client.own), losses(client.rare), threshold)
    assert tried([client], [lowest_loss(made, [beta])]).decisions == expected
    assert expected.false_alarms > 0


def test_the_split_is_another_one_of_the_same_rows() -> None:
    data = _labelled()
    split = data.shuffled(0.8, np.random.default_rng(0))
    assert (len(split.train), len(split.test)) == (960, 240)
    both = np.vstack([split.train, split.test])
    whole = np.vstack([data.train, data.test])
    np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(whole, axis=0))


@pytest.fixture(name="clients", scope="module")
def clients_fixture() -> list[Client]:
    return digits(_labelled(), 1, Run(Path()))


def test_e2lm_is_the_centralized_model(clients: list[Client]) -> None:
    made = basis("mnist", 20)
    rows = federation_rows(clients, made, (RULE,))
    assert rows["E²LM"]["auc_own"] == pytest.approx(rows["Centralized"]["auc_own"], abs=1e-9)
    assert rows["Never alarms"]["recall"] == 1.0
    assert "worst_change_own" not in rows["Alone"]


def test_both_answers_are_from_the_models_of_devices_alone() -> None:
    clients = digits(_labelled(400), 1, Run(Path()))
    rows = federation_rows(clients, basis("mnist", 20), (RULE,))
    for name in ("", "Patterns (auto), "):
        alone, anomalous, unknown = (
            rows[f"{name}{key}" if name else key.capitalize()]
            for key in ("alone", "anomalous", "unknown")
        )
        assert anomalous["clients"] == alone["clients"]
        assert anomalous["largest_change_own"] == anomalous["worst_change_own"] == 0.0
        assert unknown["auc_peers"] > alone["auc_peers"] + 0.1


def test_as_printed_devices_answer_by_algorithm_3(clients: list[Client]) -> None:
    """The models of its groups answer for a client, each in the place of one of its own."""
    made, rule = basis("mnist", 20), replace(RULE, patterns=2)
    (alone, cooperating) = printed_rows(clients, made, (rule,)).values()
    fleet = Fleet(made, rule)
    for client in clients:
        fleet.learn(client.name, client.train)
    contributions = [fleet.contribution(client.name) for client in clients]
    betas = matched(by_parameters(contributions, RIDGE).grouping, RIDGE)
    models = [lowest_loss(made, betas[client.name]) for client in clients]
    expected = tried(clients, models).numbers()
    for key in ("auc_own", "auc_peers"):
        assert cooperating["clients"][key] == pytest.approx(expected["clients"][key], abs=1e-6)
    assert alone["clients"] != cooperating["clients"]


def test_a_fleet_knows_what_its_members_know_until_they_leave(clients: list[Client]) -> None:
    fleet = Fleet(basis("mnist", 20))
    for client in clients[:3]:
        fleet.learn(client.name, client.train)
    fleet.sync()
    first = fleet.detector(clients[0].name)
    assert first.received is not None
    assert first.received.count == len(clients[1].train) + len(clients[2].train)
    fleet.leave(clients[2].name)
    fleet.sync()
    assert first.received.count == len(clients[1].train)


@pytest.mark.parametrize("quick", [True, False])
def test_both_assignments_are_tried_on_the_same_clients(
    clients: list[Client], monkeypatch: pytest.MonkeyPatch, *, quick: bool
) -> None:
    monkeypatch.setattr(rules, "_data", lambda run: {"mnist case 1": clients})
    chosen = figure("mlmg", "assignment")
    found = chosen.numbers(Run(Path(), quick=quick))
    (rows,) = found.values()
    assert [row["assign"] for row in rows] == ["centroid", "loss"] * (1 if quick else 2)
    for row in rows:
        assert row["auc_peers"] > row["auc_peers_alone"] + 0.1
        assert row["worst_change_own"] >= -0.01
    chosen.draw(found, Canvas())


def test_a_pair_that_cooperates_knows_both_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    # With fewer rows a device has earned no threshold, and is not asked.
    monkeypatch.setattr("elmgrove_papers.mlmg.pairs.mnist", lambda folder: _labelled(600))
    chosen = figure("mlmg", "mnist-pairs")
    found = chosen.numbers(Run(Path(), quick=True))
    assert len(found["pairs"]) == 2 * 5
    mean = found["mean"]
    assert mean["before"]["auc_own"] > mean["before"]["auc"] > mean["before"]["auc_peers"]
    for variant in ("merged", "patterns", "patterns, split further", "unknown"):
        assert mean[variant]["auc"] > mean["before"]["auc"] + 0.1
    assert mean["unknown, by distance"]["auc"] > mean["before, by distance"]["auc"] + 0.1
    chosen.draw(found, Canvas())


def test_a_pair_that_asks_each_other_keeps_what_each_tells_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elmgrove_papers.mlmg.pairs.mnist", lambda folder: _labelled())
    found = figure("mlmg", "mnist-pairs").numbers(Run(Path(), quick=True))
    for row in found["pairs"]:
        assert row["anomalous"] == row["before"], "by loss there is no loan"
    changes = [
        row["anomalous, by distance"]["auc_own"] - row["before, by distance"]["auc_own"]
        for row in found["pairs"]
    ]
    stated = found["largest change of own AUC, anomalous, by distance"]
    assert abs(stated) == pytest.approx(np.abs(changes).max())
    assert found["largest change of own AUC, anomalous"] == 0.0


def test_groups_are_tried_from_all_in_one_to_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # The package has a function of the same name.
    module = import_module("elmgrove_papers.mlmg.comparison")
    monkeypatch.setattr(module, "mnist", lambda folder: _labelled(250))
    monkeypatch.setitem(UNITS, "mnist", 12)
    monkeypatch.setattr(module, "MOST_GROUPS", 3)
    chosen = figure("mlmg", "comparison")
    found = chosen.numbers(Run(Path()))
    for case, locals_ in zip(found.values(), (2, 5), strict=True):
        assert case["MLMG"]["local_models"] == [locals_] * 5
        assert list(case["single"]["groups"]) == ["1"]
        assert list(case["multi-global"]["groups"]) == ["2", "3", "4", "5"]
        assert {"2", "3", str(case["MLMG"]["chosen"])} == set(case["MLMG"]["groups"])
        # Each alone: there is nothing to average or to add.
        alone = case["multi-global"]["groups"]["5"]
        assert alone["FedAvg"]["auc_own"] == pytest.approx(alone["E²LM"]["auc_own"], abs=1e-9)
    chosen.draw(found, Canvas())


def test_the_command_lists_what_there_is(elmgrove: Elmgrove) -> None:
    ran = elmgrove("paper")
    assert ran.code == 0
    assert all(one.name in ran.out for figures in PAPERS.values() for one in figures)
    one = elmgrove("paper", "mlmg").out
    assert "table2" in one
    assert "fed-elms" not in one


def test_unknown_names_and_no_data_are_one_clear_line(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ELMGROVE_DATA", raising=False)
    assert (
        "there are: ito2020, ito2021, fed-elms, mlmg, ito2019, onlad, sunaga2023"
        in one_clear_line(elmgrove("paper", "nobody"))
    )
    assert "table2" in one_clear_line(elmgrove("paper", "mlmg", "table9"))
    assert "ELMGROVE_DATA" in one_clear_line(elmgrove("paper", "mlmg", "table2"))
    ran = elmgrove("paper", "mlmg", "table2", "--data", tmp_path)
    assert "MNIST is not in" in one_clear_line(ran)
    with pytest.raises(BadInput, match="no paper"):
        figure("nobody", "table2")


def test_faces_run(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_faces(tmp_path, clients=3)
    assert elmgrove("paper", "mlmg", "celeba", "--data", tmp_path, "--output", "out").code == 0
    found = json.loads((tmp_path / "out/mlmg/celeba.json").read_text())
    assert found["celeba"]["E²LM"]["paper"]["f_score"] == 0.87
    assert found["items"] == {
        "clients": 3,
        "learned": 6,
        "left out, for thresholds": 3,
        "normal in tests": 3,
        "anomalous in decisions": 1,
        "anomalous in ROC-AUC": 6,
    }
    assert (tmp_path / "out/mlmg/celeba.png").stat().st_size > 1000


def test_sounds_run_and_another_tone_is_found(elmgrove: Elmgrove, tmp_path: Path) -> None:
    write_sounds(tmp_path)
    ran = elmgrove("paper", "mlmg", "dcase", "--data", tmp_path, "--output", "out", "--quick")
    assert ran.code == 0
    rows = json.loads((tmp_path / "out/mlmg/dcase.json").read_text())["dcase"]
    assert rows["Alone"]["auc_own"] == 1.0
    assert rows["Alone"]["recall"] > 0.5, "a dozen recordings tell where anomalous begins"
    assert (tmp_path / "out/mlmg/dcase.png").exists()


@pytest.mark.parametrize(
    ("name", "title", "clients"),
    [("comparison-celeba", "CelebA", 4), ("comparison-dcase", "DCASE 2020", 3)],
)
def test_paradigms_are_compared_on_faces_and_sounds(
    elmgrove: Elmgrove, tmp_path: Path, name: str, title: str, clients: int
) -> None:
    write_faces(tmp_path, clients=4)
    write_sounds(tmp_path, {"ToyCar": 2, "pump": 1}, (6, 4, 2))
    assert elmgrove("paper", "mlmg", name, "--data", tmp_path, "--output", "out").code == 0
    paradigms = json.loads((tmp_path / f"out/mlmg/{name}.json").read_text())[title]
    assert list(paradigms) == ["single", "multi-global", "MLMG"]
    assert paradigms["MLMG"]["local_models"] == [2] * clients
    assert paradigms["multi-global"]["local_models"] == [1] * clients
    for paradigm in ("multi-global", "MLMG"):
        counts = paradigms[paradigm]["groups"]
        assert {"2", str(clients), str(paradigms[paradigm]["chosen"])} <= set(counts)
        for row in counts.values():
            assert set(row) == {"FedAvg", "E²LM"}
            assert 0.0 <= row["E²LM"]["recall"] <= 1.0
    # Each alone: there is nothing to average or to add.
    alone = paradigms["multi-global"]["groups"][str(clients)]
    assert alone["FedAvg"]["auc_own"] == pytest.approx(alone["E²LM"]["auc_own"], abs=1e-9)
    assert (tmp_path / f"out/mlmg/{name}.png").stat().st_size > 1000


@real
@pytest.mark.parametrize("name", ["fans", "har-pairs"])
def test_real_data_keep_what_is_promised(elmgrove: Elmgrove, tmp_path: Path, name: str) -> None:
    assert elmgrove("paper", "mlmg", name, "--quick", "--output", tmp_path).code == 0
    found = json.loads((tmp_path / f"mlmg/{name}.json").read_text())
    if name == "fans":
        row = found["table"]["Patterns (3), cooperating"]
        assert row["auc_peers"] > found["table"]["Patterns (3), alone"]["auc_peers"] + 0.2
        assert found["rows left out because the fan is off"] > 0
        changes = found["change of own AUC, anomalous"]["by distance"]
        assert changes.pop(LATE) > 0.02, "the loan is for those that have seen few rows"
        assert max(map(abs, changes.values())) < 0.005
    else:
        mean = found["mean"]
        assert mean["patterns"]["auc"] > mean["merged"]["auc"]
        assert min(mean[name]["auc"] for name in ("unknown", "unknown, by distance")) > 0.922
        assert abs(found["largest change of own AUC, anomalous, by distance"]) < 0.005
