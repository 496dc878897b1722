"""What learns a row, by the pattern rule's assignment, on all data at hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from elmgrove.detector import ASSIGNMENTS, PatternRule
from elmgrove_papers.data import har, mnist, recordings
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RULE, Client, activities, basis, fans, few_digits
from elmgrove_papers.mlmg.trial import tried_fleet


def assignment(run: Run) -> Numbers:
    """Compares what learns a row: the nearest centroid's pattern, or the lowest loss's.

    Quick: with as many patterns as are found, not with five as well.
    """
    counts = ("auto",) if run.quick else ("auto", 5)
    settings = [(assign, patterns) for patterns in counts for assign in ASSIGNMENTS]
    found: Numbers = {}
    for name, clients in _data(run).items():
        found[name] = [
            {"assign": assign, "patterns": patterns}
            | _before_and_after(name, clients, replace(RULE, assign=assign, patterns=patterns))
            for assign, patterns in run.track(settings, f"Assignment on {name}")
        ]
    return found


def _data(run: Run) -> dict[str, list[Client]]:
    # Few rows: assignment by loss takes them one by one.
    pixels = mnist(run.data)
    return {
        "mnist case 1": few_digits(pixels, 1),
        "mnist case 2": few_digits(pixels, 2),
        "har": activities(har(run.data)),
        "fans": fans(recordings(run.data)),
    }


def _before_and_after(name: str, clients: Sequence[Client], rule: PatternRule) -> dict[str, Any]:
    """ROC-AUC alone and cooperating, and by how much the client that lost most lost."""
    fleet = Fleet(basis(name.split()[0], clients[0].train.shape[1]), rule)
    for client in clients:
        fleet.learn(client.name, client.train)
    before = tried_fleet(fleet, clients)
    counts = [len(fleet.detector(client.name).parts) for client in clients]
    fleet.sync()
    alone, after = before.numbers(), tried_fleet(fleet, clients).numbers(before)
    return {
        "patterns found": counts,
        "auc_own_alone": alone["auc_own"],
        "auc_peers_alone": alone["auc_peers"],
        "auc_own": after["auc_own"],
        "auc_peers": after["auc_peers"],
        "worst_change_own": after["worst_change_own"],
    }
