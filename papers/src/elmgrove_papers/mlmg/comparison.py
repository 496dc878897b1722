"""MLMG's comparison of paradigms: single, multi-global, multi-local and multi-global."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from elmgrove.algebra import Basis
from elmgrove.detector import PatternRule
from elmgrove.federation import Contribution, Grouping, group
from elmgrove_papers.data import mnist
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RIDGE, Client, basis, digits
from elmgrove_papers.mlmg.matching import averaged, matched, summed
from elmgrove_papers.mlmg.others import ITEMS, counted, faces, sounds
from elmgrove_papers.mlmg.parameters import by_parameters
from elmgrove_papers.mlmg.trial import lowest_loss, tried

#: Local models of a client, by MNIST's case: as many as it has classes.
LOCALS = {1: 2, 2: 5}
#: Those of a face or a machine. The paper states none; one pattern of each would be multi-global.
FEW_LOCALS = 2
MOST_GROUPS = 9
#: Where there are many clients: up to as many groups as clients, each alone.
COUNTS = (2, 3, 5, 10, 20, 50)
AGGREGATIONS = {"FedAvg": averaged, "E²LM": summed}


class Paradigm(NamedTuple):
    """How many local models a client has, how they are grouped, and into how many groups."""

    local_models: int
    counts: Sequence[int]
    distance: str = "parameters"


Plan = Mapping[str, Paradigm]


def comparison(run: Run) -> Numbers:
    """Tries both cases of MNIST, both aggregations, several numbers of groups, both distances."""
    data = mnist(run.data)
    made = basis("mnist", data.width)
    found: Numbers = {}
    for case in run.track((1, 2), "Paradigms"):
        clients = digits(data, case, run)
        groups = range(2, MOST_GROUPS + 1)
        plan = {
            "single": Paradigm(1, [1]),
            "multi-global": Paradigm(1, range(2, len(clients) + 1)),
            "MLMG": Paradigm(LOCALS[case], groups),
            "MLMG by evidence": Paradigm(LOCALS[case], groups, "evidence"),
        }
        found[f"case {case}"] = _compared(clients, made, plan)
    return found


def comparison_of_faces(run: Run) -> Numbers:
    """Compares the paradigms on CelebA, with thresholds from pictures that were left out."""
    return _of_many("CelebA", "celeba", faces(run))


def comparison_of_sounds(run: Run) -> Numbers:
    """Compares the paradigms on DCASE's sounds, with thresholds from left-out recordings."""
    return _of_many("DCASE 2020", "dcase", sounds(run))


def _of_many(title: str, name: str, clients: Sequence[Client]) -> Numbers:
    counts = [*(count for count in COUNTS if count < len(clients)), len(clients)]
    plan = {
        "single": Paradigm(1, [1]),
        "multi-global": Paradigm(1, counts),
        "MLMG": Paradigm(FEW_LOCALS, counts),
    }
    made = basis(name, clients[0].train.shape[1])
    return {title: _compared(clients, made, plan), ITEMS: counted(clients)}


def _compared(clients: Sequence[Client], basis: Basis, plan: Plan) -> Numbers:
    """All paradigms on the same rows.

    ``chosen`` is the number of groups that the data suggest, which is tried as well: by parameters
    the silhouette's choice, as in the paper.
    """
    known = {
        count: _contributions(clients, basis, count)
        for count in {paradigm.local_models for paradigm in plan.values()}
    }
    found: Numbers = {}
    for name, paradigm in plan.items():
        contributions, choice = known[paradigm.local_models], paradigm.counts[0]
        silhouettes = dict[int, float]()
        if len(paradigm.counts) > 1:
            if paradigm.distance == "parameters":
                chosen, silhouettes = by_parameters(contributions, RIDGE, silhouette=-1.0)
            else:
                chosen = group(contributions, RIDGE)
            choice = chosen.count
        found[name] = {
            "local_models": [len(contribution.parts) for contribution in contributions],
            "chosen": choice,
            "silhouettes": {str(count): score for count, score in silhouettes.items()},
            "groups": {
                str(count): _tested(
                    clients, basis, _grouped(contributions, paradigm.distance, count)
                )
                for count in sorted({*paradigm.counts, choice})
            },
        }
    return found


def _grouped(contributions: Sequence[Contribution], distance: str, count: int) -> Grouping:
    if distance == "parameters":
        return by_parameters(contributions, RIDGE, count).grouping
    return group(contributions, RIDGE, count)


def _contributions(clients: Sequence[Client], basis: Basis, count: int) -> list[Contribution]:
    """What clients have learned in so many local models each; one with fewer rows has fewer."""
    found = []
    for client in clients:
        # By then it is decided which rows belong together.
        start = min(len(client.train), PatternRule().start_rows)
        fleet = Fleet(basis, PatternRule(patterns=count, start_rows=max(start, 2)))
        fleet.learn(client.name, client.train)
        found.append(fleet.contribution(client.name))
    return found


def _tested(clients: Sequence[Client], basis: Basis, grouping: Grouping) -> dict[str, Any]:
    """Both aggregations of one grouping, after one round (Algorithm 3)."""
    found = {}
    for name, aggregation in AGGREGATIONS.items():
        betas = matched(grouping, RIDGE, aggregation)
        models = [lowest_loss(basis, betas[client.name]) for client in clients]
        found[name] = tried(clients, models).numbers()
    return found
