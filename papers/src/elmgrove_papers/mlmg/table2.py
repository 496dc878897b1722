"""MLMG, Table II: one global model, and what patterns make of the same data."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmgrove.algebra import Basis
from elmgrove.detector import PatternRule
from elmgrove_papers.data import mnist
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RIDGE, RULE, Client, basis, digits
from elmgrove_papers.mlmg.matching import averaged
from elmgrove_papers.mlmg.trial import Model, lowest_loss, never_alarms, tried, tried_fleet

#: Precision, recall, F-score and accuracy as the paper prints them.
PRINTED: dict[str, dict[str, tuple[float, ...]]] = {
    "case 1": {
        "Centralized": (0.901, 0.991, 0.944, 0.894),
        "FedAvg": (0.9, 0.984, 0.94, 0.887),
        "E²LM": (0.901, 0.991, 0.944, 0.894),
    },
    "case 2": {
        "Centralized": (0.9, 0.981, 0.939, 0.885),
        "FedAvg": (0.899, 0.976, 0.936, 0.88),
        "E²LM": (0.9, 0.981, 0.939, 0.884),
    },
}
_MEASURES = ("precision", "recall", "f_score", "accuracy")


def table2(run: Run) -> Numbers:
    """Tries both cases of MNIST; quick: 400 training rows a digit."""
    data = mnist(run.data)
    found: Numbers = {}
    for case in run.track((1, 2), "Table II"):
        clients = digits(data, case, run)
        rows = federation_rows(
            clients, basis("mnist", data.width), (RULE, replace(RULE, patterns=5))
        )
        found[f"case {case}"] = beside_the_paper(rows, PRINTED[f"case {case}"])
    return found


def beside_the_paper(
    rows: dict[str, dict[str, Any]], printed: dict[str, tuple[float, ...]]
) -> dict[str, dict[str, Any]]:
    """Puts the paper's numbers beside the rows that it has."""
    paper = {
        name: {"paper": dict(zip(_MEASURES, values, strict=True))}
        for name, values in printed.items()
    }
    return {name: row | paper.get(name, {}) for name, row in rows.items()}


def federation_rows(
    clients: Sequence[Client], basis: Basis, rules: Sequence[PatternRule]
) -> dict[str, dict[str, Any]]:
    """Makes the table of one data set: the paper's approaches, and patterns by these rules."""
    single = _learned(Fleet(basis), clients)
    alone = tried_fleet(single, clients)
    parts = [single.detector(client.name).evidence for client in clients]
    single.sync()
    average = lowest_loss(basis, [averaged(parts, RIDGE)])
    central = Fleet(basis)
    central.learn("central", np.vstack([client.train for client in clients]))
    everything = Model(central.detector("central").score_many)
    rows = {
        "Never alarms": {**never_alarms(clients).numbers, "auc_own": 0.5, "auc_peers": 0.5},
        "Centralized": tried(clients, [everything] * len(clients)).numbers(alone),
        "FedAvg": tried(clients, [average] * len(clients)).numbers(alone),
        "E²LM": tried_fleet(single, clients).numbers(alone),
        "Alone": alone.numbers(),
    }
    for rule in rules:
        rows |= _pattern_rows(clients, basis, rule)
    return rows


def _pattern_rows(
    clients: Sequence[Client], basis: Basis, rule: PatternRule
) -> dict[str, dict[str, Any]]:
    fleet = _learned(Fleet(basis, rule), clients)
    alone = tried_fleet(fleet, clients)
    counts = [len(fleet.detector(client.name).parts) for client in clients]
    fleet.sync()
    name = f"Patterns ({rule.patterns})"
    return {
        f"{name}, alone": {**alone.numbers(), "patterns": counts},
        f"{name}, cooperating": {**tried_fleet(fleet, clients).numbers(alone), "patterns": counts},
    }


def _learned(fleet: Fleet, clients: Sequence[Client]) -> Fleet:
    for client in clients:
        fleet.learn(client.name, client.train)
    return fleet
