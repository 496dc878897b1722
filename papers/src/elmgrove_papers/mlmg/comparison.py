"""MLMG's comparison of paradigms: single, multi-global, multi-local and multi-global."""

from collections.abc import Sequence
from typing import Any

from elmgrove.algebra import Basis
from elmgrove.detector import PatternRule
from elmgrove.federation import Contribution, Grouping, by_parameters, group
from elmgrove_papers.data import mnist
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RIDGE, Client, basis, digits
from elmgrove_papers.mlmg.matching import averaged, matched, summed
from elmgrove_papers.mlmg.trial import lowest_loss, tried

#: Local models of a client, by case: as many as it has classes.
LOCALS = {1: 2, 2: 5}
MOST_GROUPS = 9
AGGREGATIONS = {"FedAvg": averaged, "E²LM": summed}


def comparison(run: Run) -> Numbers:
    """Tries both cases of MNIST, both aggregations, several numbers of groups, both distances."""
    data = mnist(run.data)
    made = basis("mnist", data.width)
    found: Numbers = {}
    for case in run.track((1, 2), "Paradigms"):
        clients = digits(data, case, run)
        one, several = (_contributions(clients, made, count) for count in (1, LOCALS[case]))
        globals_ = range(2, len(clients) + 1)
        groups = range(2, MOST_GROUPS + 1)
        found[f"case {case}"] = {
            "single": _paradigm(clients, made, one, "parameters", [1]),
            "multi-global": _paradigm(clients, made, one, "parameters", globals_),
            "MLMG": _paradigm(clients, made, several, "parameters", groups),
            "MLMG by evidence": _paradigm(clients, made, several, "evidence", groups),
        }
    return found


def _contributions(clients: Sequence[Client], basis: Basis, count: int) -> list[Contribution]:
    fleet = Fleet(basis, PatternRule(patterns=count))
    for client in clients:
        fleet.learn(client.name, client.train)
    return [fleet.contribution(client.name) for client in clients]


def _paradigm(
    clients: Sequence[Client],
    basis: Basis,
    contributions: Sequence[Contribution],
    distance: str,
    counts: Sequence[int],
) -> dict[str, Any]:
    """One paradigm for each number of groups; ``chosen`` is the number that the data suggest.

    By parameters that is the silhouette's choice, as in the paper.
    """
    chosen = (
        by_parameters(contributions, RIDGE, silhouette=-1.0)
        if distance == "parameters"
        else group(contributions, RIDGE, distance)
    )
    groups = {
        str(count): _tested(clients, basis, group(contributions, RIDGE, distance, count))
        for count in counts
    }
    return {
        "local_models": [len(contribution.parts) for contribution in contributions],
        "chosen": chosen.count if len(groups) > 1 else 1,
        "silhouettes": {str(count): score for count, score in chosen.silhouettes.items()},
        "groups": groups,
    }


def _tested(clients: Sequence[Client], basis: Basis, grouping: Grouping) -> dict[str, Any]:
    """Both aggregations of one grouping, after one round (Algorithm 3)."""
    found = {}
    for name, aggregation in AGGREGATIONS.items():
        betas = matched(grouping, RIDGE, aggregation)
        models = [lowest_loss(basis, betas[client.name]) for client in clients]
        found[name] = tried(clients, models).numbers()
    return found
