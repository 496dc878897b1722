"""MLMG, Table II: one global model, and what patterns and policies make of the same data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array, Basis
from elmgrove.detector import PatternRule
from elmgrove_papers.answers import ANOMALOUS, UNKNOWN
from elmgrove_papers.data import mnist
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RIDGE, RULE, Client, basis, digits, distance_basis
from elmgrove_papers.mlmg.matching import averaged, matched
from elmgrove_papers.mlmg.parameters import by_parameters
from elmgrove_papers.mlmg.trial import (
    Model,
    anomalous_models,
    daef_models,
    lowest_loss,
    never_alarms,
    tried,
    unknown_models,
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
#: The paper's.
APPROACHES = ("Centralized", "FedAvg", "E²LM")
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


class _Line(NamedTuple):
    """A line of the table: its name, and the clients' models as they are until the next line."""

    name: str
    models: Iterable[Model]
    more: Mapping[str, Any] = MappingProxyType({})


def federation_rows(clients: Sequence[Client], basis: Basis, rules: Sequence[PatternRule]) -> Rows:
    """Makes the table of one data set: the paper's approaches, DAEF, policies, and patterns."""
    rows: Rows = {}
    for name, models, more in _lines(clients, basis, rules):
        trial = tried(clients, models)
        if name.lower().endswith("alone"):
            alone, numbers = trial, trial.numbers()
        else:
            numbers = trial.numbers(alone)
        if name.lower().endswith(ANOMALOUS):
            numbers["largest_change_own"] = trial.largest_change(alone)
        rows[name] = {**numbers, **more}
    silent = {**never_alarms(clients).numbers, "auc_own": 0.5, "auc_peers": 0.5}
    # The paper's approaches first; they are compared with devices that are alone.
    ordered = sorted(rows, key=lambda name: name not in APPROACHES)
    return {"Never alarms": silent} | {name: rows[name] for name in ordered}


def _lines(
    clients: Sequence[Client], basis: Basis, rules: Sequence[PatternRule]
) -> Iterator[_Line]:
    """All lines; those that follow one of devices alone are compared with that one."""
    every = np.vstack([client.train for client in clients])
    yield from _policy_lines(clients, basis)
    yield from _approaches(clients, basis, every)
    for rule in rules:
        yield from _pattern_lines(clients, basis, rule)
    for line in _policy_lines(clients, distance_basis(every)):
        yield line._replace(name=f"By distance, {line.name.lower()}")


def _approaches(clients: Sequence[Client], basis: Basis, every: Array) -> Iterator[_Line]:
    central = Fleet(basis)
    central.learn("central", every)
    yield _Line("Centralized", [Model(central.detector("central").score_many)] * len(clients))
    fleet = _learned(Fleet(basis), clients)
    parts = [fleet.detector(client.name).evidence for client in clients]
    yield _Line("FedAvg", [lowest_loss(basis, [averaged(parts, RIDGE)])] * len(clients))
    fleet.sync()
    yield _Line("E²LM", anomalous_models(fleet, clients))
    for name, model in daef_models(clients, basis.hidden.units).items():
        yield _Line(name, [model] * len(clients))


def printed_rows(clients: Sequence[Client], basis: Basis, rules: Sequence[PatternRule]) -> Rows:
    """Makes the rows of MLMG as printed: the lowest raw loss and Algorithm 3.

    Local models, as devices give them, are grouped by their parameters, as many groups as the
    silhouette says, and the model of its group answers in the place of each.
    """
    found: Rows = {}
    for rule in rules:
        fleet = _learned(Fleet(basis, rule), clients)
        given = [fleet.contribution(client.name) for client in clients]
        own = [[part.solve(RIDGE) for part in one.parts] for one in given]
        alone = tried(clients, [lowest_loss(basis, betas) for betas in own])
        counts = [len(one.parts) for one in given]
        betas = matched(by_parameters(given, RIDGE).grouping, RIDGE)
        models = [lowest_loss(basis, betas[client.name]) for client in clients]
        row = tried(clients, models).numbers(alone)
        name = f"Patterns ({rule.patterns}), as printed"
        found[f"{name}, alone"] = {**alone.numbers(), "patterns": counts}
        found[f"{name}, cooperating"] = {**row, "patterns": counts}
    return found


def _pattern_lines(clients: Sequence[Client], basis: Basis, rule: PatternRule) -> Iterator[_Line]:
    fleet = _learned(Fleet(basis, rule), clients)
    counts = {"patterns": [len(fleet.detector(client.name).parts) for client in clients]}
    title = f"Patterns ({rule.patterns})"
    for line in _policy_lines(clients, basis, rule):
        yield _Line(f"{title}, {line.name.lower()}", line.models, counts)
    yield _Line(f"{title}, cooperating", map(Model.of, fleet.each_synced()), counts)


def _policy_lines(
    clients: Sequence[Client], basis: Basis, rule: PatternRule | None = None
) -> Iterator[_Line]:
    """Devices alone, then both their answers, which are from the same models."""
    fleet = _learned(Fleet(basis, rule, merged=False), clients)
    yield _Line("Alone", anomalous_models(fleet, clients))
    fleet.sync()
    yield _Line(ANOMALOUS.capitalize(), anomalous_models(fleet, clients))
    yield _Line(UNKNOWN.capitalize(), unknown_models(fleet, clients))


def _learned(fleet: Fleet, clients: Sequence[Client]) -> Fleet:
    for client in clients:
        fleet.learn(client.name, client.train)
    return fleet
