"""A trial: what each client's model makes of its own rows, its peers' and anomalies."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array, Basis
from elmgrove.detector import Detector
from elmgrove_papers.answers import RARE, unknown
from elmgrove_papers.daef import DaefDevice, DaefFleet
from elmgrove_papers.figure import SEED
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.measures import Decisions, auc
from elmgrove_papers.mlmg.clients import QUANTILE, Client

#: Rows of a client whose losses tell where anomalous begins.
_CALIBRATING = 5000
# The share of normal rows that may be flagged.
_RATE = 0.01


class Model(NamedTuple):
    """What a client has: scores of rows, and where anomalous begins.

    None lets a quantile of the losses on the client's own rows decide. So do rows that were left
    out of learning, whatever the threshold is.
    """

    score: Callable[[Array], Array]
    threshold: float | None = None

    @classmethod
    def of(cls, detector: Detector) -> "Model":
        """Takes a detector, with the threshold that its last rows give, each left out."""
        return cls(detector.score_many, _left_out_threshold(detector))


@dataclass(frozen=True)
class FleetTrial:
    """The decisions of all clients, and each client's ROC-AUC on its own rows and its peers'."""

    decisions: Decisions
    own: tuple[float, ...]
    peers: tuple[float, ...]

    def numbers(self, alone: "FleetTrial | None" = None) -> dict[str, Any]:
        """Gives a table's row; with ``alone``, also by how much the client that lost most lost."""
        found: dict[str, Any] = self.decisions.numbers
        found |= {"auc_own": float(np.mean(self.own)), "auc_peers": float(np.mean(self.peers))}
        found["clients"] = {"auc_own": list(self.own), "auc_peers": list(self.peers)}
        if alone is not None:
            found["worst_change_own"] = float(np.min(np.subtract(self.own, alone.own)))
        return found

    def largest_change(self, alone: "FleetTrial") -> float:
        """Says by how much the own ROC-AUC of a client differs, where it does most."""
        return float(max(np.subtract(self.own, alone.own), key=abs))


def tried(clients: Sequence[Client], models: Iterable[Model]) -> FleetTrial:
    """Tests each client with its model; each model is done with before the next one is made."""
    decisions, own, peers = [], [], []
    for client, model in zip(clients, models, strict=True):
        normal, foreign, anomalous = (
            item_scores(model, rows, client.item)
            for rows in (client.own, client.peers, client.anomalies)
        )
        rare = anomalous[: len(client.rare) // client.item]
        decisions.append(Decisions.of(normal, rare, _threshold(client, model)))
        own.append(auc(normal, anomalous))
        peers.append(auc(foreign, anomalous))
    return FleetTrial(Decisions.sum(decisions), tuple(own), tuple(peers))


def _left_out_threshold(detector: Detector) -> float:
    """The score above which one in a hundred of the last rows is; infinite if they are too few.

    A detector of today counts scores from before it learned a row; this is what the papers' tables
    were made with.
    """
    rows = detector.gate.recent.rows
    above = int(_RATE * (len(rows) + 1) + 1e-9)
    received = detector.received
    known = detector.learned + (0.0 if received is None else received.count)
    if not above or known < detector.gate.warmup:
        return float("inf")
    return float(np.sort(detector.model.left_out(rows))[-above])


def _threshold(client: Client, model: Model) -> float:
    if len(client.left_out):
        return _quantile(client, model, client.left_out)
    # A detector's is infinite while it has too few rows, and for rows, not for means of them.
    if model.threshold is not None and model.threshold < np.inf and client.item == 1:
        return model.threshold
    most = _CALIBRATING // client.item * client.item
    return _quantile(client, model, client.train[-most:])


def _quantile(client: Client, model: Model, rows: Array) -> float:
    return float(np.quantile(item_scores(model, rows, client.item), QUANTILE))


def never_alarms(clients: Sequence[Client]) -> Decisions:
    """Counts what a detector reaches that takes everything for normal."""
    return Decisions.sum(
        Decisions(len(client.own) // client.item, 0, len(client.rare) // client.item, 0)
        for client in clients
    )


def lowest_loss(basis: Basis, betas: Sequence[Array]) -> Model:
    """Makes a model of several output weights: the lowest mean squared error of any."""

    def score(rows: Array) -> Array:
        H = basis.layer(rows)
        losses = [((rows - H @ beta) ** 2).mean(axis=1) for beta in betas]
        lowest: Array = np.min(losses, axis=0)
        return lowest

    return Model(score)


def daef_models(clients: Sequence[Client], units: int) -> dict[str, Model]:
    """Makes DAEF's model of all clients in either shape, by its name: each client has it."""
    fleet = DaefFleet([DaefDevice(client.train) for client in clients])
    return {name: Model(found.losses) for name, found in fleet.both(units, SEED).items()}


def item_scores(model: Model, rows: Array, item: int) -> Array:
    """Scores things of so many rows each, by the mean of their rows."""
    means: Array = model.score(rows).reshape(-1, item).mean(axis=1)
    return means


def anomalous_models(fleet: Fleet, clients: Sequence[Client]) -> list[Model]:
    """Gives each client its detector as it is now."""
    return [Model.of(fleet.detector(client.name)) for client in clients]


def unknown_models(fleet: Fleet, clients: Sequence[Client]) -> list[Model]:
    """Gives each client ``unknown``: with the devices that it asks as they are now."""
    return [Model(unknown(fleet, client.name), RARE) for client in clients]


def tried_fleet(fleet: Fleet, clients: Sequence[Client]) -> FleetTrial:
    """Tests each client with its detector as it is now."""
    return tried(clients, anomalous_models(fleet, clients))


def tried_unknown(fleet: Fleet, clients: Sequence[Client]) -> FleetTrial:
    """Tests each client by ``unknown``: with the devices that it asks as they are now."""
    return tried(clients, unknown_models(fleet, clients))
