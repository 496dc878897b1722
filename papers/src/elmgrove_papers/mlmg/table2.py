"""MLMG, Table II: one global model, and what patterns and policies make of the same data."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmgrove.algebra import Basis
from elmgrove.detector import PatternRule
from elmgrove.federation import STRANGE, UNKNOWN, SameGroup
from elmgrove_papers.data import mnist
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RIDGE, RULE, Client, basis, digits, distance_basis
from elmgrove_papers.mlmg.matching import averaged
from elmgrove_papers.mlmg.trial import (
    Model,
    daef_models,
    lowest_loss,
    never_alarms,
    tried,
    tried_fleet,
    tried_unknown,
)

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
Rows = dict[str, dict[str, Any]]
_MEASURES = ("precision", "recall", "f_score", "accuracy")


def table2(run: Run) -> Numbers:
    """Tries both cases of MNIST; quick: 2500 training rows a client."""
    data = mnist(run.data)
    found: Numbers = {}
    for case in run.track((1, 2), "Table II"):
        clients = digits(data, case, run)
        made, rules = basis("mnist", data.width), (RULE, replace(RULE, patterns=5))
        rows = federation_rows(clients, made, rules)
        rows |= printed_rows(clients, made, rules)
        found[f"case {case}"] = beside_the_paper(rows, PRINTED[f"case {case}"])
    return found


def beside_the_paper(rows: Rows, printed: dict[str, tuple[float, ...]]) -> Rows:
    """Puts the paper's numbers beside the rows that it has."""
    paper = {
        name: {"paper": dict(zip(_MEASURES, values, strict=True))}
        for name, values in printed.items()
    }
    return {name: row | paper.get(name, {}) for name, row in rows.items()}


def federation_rows(clients: Sequence[Client], basis: Basis, rules: Sequence[PatternRule]) -> Rows:
    """Makes the table of one data set: the paper's approaches, DAEF, policies, and patterns."""
    every = np.vstack([client.train for client in clients])
    single = _learned(Fleet(basis), clients)
    alone = tried_fleet(single, clients)
    parts = [single.detector(client.name).evidence for client in clients]
    single.sync()
    average = lowest_loss(basis, [averaged(parts, RIDGE)])
    central = Fleet(basis)
    central.learn("central", every)
    everything = Model(central.detector("central").score_many)
    rows = {
        "Never alarms": {**never_alarms(clients).numbers, "auc_own": 0.5, "auc_peers": 0.5},
        "Centralized": tried(clients, [everything] * len(clients)).numbers(alone),
        "FedAvg": tried(clients, [average] * len(clients)).numbers(alone),
        "E²LM": tried_fleet(single, clients).numbers(alone),
    }
    for name, model in daef_models(clients, basis.hidden.units).items():
        rows[name] = tried(clients, [model] * len(clients)).numbers(alone)
    rows |= {name.capitalize(): row for name, row in _policy_rows(clients, basis).items()}
    for rule in rules:
        rows |= _pattern_rows(clients, basis, rule)
    distant = _policy_rows(clients, distance_basis(every))
    return rows | {f"By distance, {name}": row for name, row in distant.items()}


def printed_rows(clients: Sequence[Client], basis: Basis, rules: Sequence[PatternRule]) -> Rows:
    """Makes the rows of MLMG as printed: real devices, by the lowest raw loss and Algorithm 3.

    Local models are grouped by their parameters, as many groups as the silhouette says, and the
    model of its group answers in the place of each.
    """
    found: Rows = {}
    for rule in rules:
        printed = replace(rule, compare="raw", others="instead")
        fleet = _learned(Fleet(basis, printed, merge=SameGroup("parameters")), clients)
        alone = tried_fleet(fleet, clients)
        counts = [len(fleet.detector(client.name).parts) for client in clients]
        fleet.sync()
        row = tried_fleet(fleet, clients).numbers(alone)
        name = f"Patterns ({rule.patterns}), as printed"
        found[f"{name}, alone"] = {**alone.numbers(), "patterns": counts}
        found[f"{name}, cooperating"] = {**row, "patterns": counts}
    return found


def _pattern_rows(clients: Sequence[Client], basis: Basis, rule: PatternRule) -> Rows:
    fleet = _learned(Fleet(basis, rule), clients)
    alone = tried_fleet(fleet, clients)
    counts = [len(fleet.detector(client.name).parts) for client in clients]
    fleet.sync()
    rows = _policy_rows(clients, basis, rule)
    rows["cooperating"] = tried_fleet(fleet, clients).numbers(alone)
    name = f"Patterns ({rule.patterns})"
    return {f"{name}, {key}": {**row, "patterns": counts} for key, row in rows.items()}


def _policy_rows(clients: Sequence[Client], basis: Basis, rule: PatternRule | None = None) -> Rows:
    """Tests devices alone, then both their answers, which are from the same models."""
    fleet = _learned(Fleet(basis, rule, policy=UNKNOWN), clients)
    alone = tried_fleet(fleet, clients)
    fleet.sync()
    strange = tried_fleet(fleet, clients)
    change = {"largest_change_own": strange.largest_change(alone)}
    return {
        "alone": alone.numbers(),
        STRANGE: strange.numbers(alone) | change,
        UNKNOWN: tried_unknown(fleet, clients).numbers(alone),
    }


def _learned(fleet: Fleet, clients: Sequence[Client]) -> Fleet:
    for client in clients:
        fleet.learn(client.name, client.train)
    return fleet
