"""Clients of federations in rounds, and a run of them in this process."""

from collections.abc import Mapping, Sequence

import numpy as np

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.federation import Contribution
from elmgrove.rounds import Client, Delivery, DeviceClient, Loss, RoundReport, RoundRule, run_here
from support.patterns import INPUTS

BASIS = Basis(HiddenLayer(INPUTS, 3, seed=7), INPUTS)
OTHER = Basis(HiddenLayer(INPUTS, 3, seed=8), INPUTS)


def device(name: str, rows: np.ndarray, rounds: int = 1, **more: object) -> DeviceClient:
    """A client with an equal part of its rows in each round, without a guard."""

    def until(number: int) -> np.ndarray:
        return rows[: len(rows) * number // rounds]

    return DeviceClient(name, until, guarded=False, **more)


def evidence_of(rows: np.ndarray, basis: Basis = BASIS) -> Evidence:
    """Equation (5), as it is written."""
    H = basis.layer(rows)
    return Evidence(basis, H.T @ H, H.T @ rows, float((rows * rows).sum()), len(rows))


def contribution_of(origin: str, evidence: Evidence) -> bytes:
    """A client's message."""
    return Contribution(origin, 9, (evidence,)).to_bytes()


def run(
    rule: RoundRule,
    clients: Mapping[str, Client] | Sequence[Client],
    rounds: int = 1,
    **more: object,
) -> tuple[list[RoundReport], Delivery]:
    """All rounds in this process, with all clients unless another fraction is given."""
    reports: list[RoundReport] = []
    if not isinstance(clients, Mapping):
        clients = {client.name: client for client in clients}
    chosen = {"rounds": rounds, "fraction": 1.0, "seed": 0} | more
    delivery = run_here(rule, clients, on_round=reports.append, **chosen)
    return reports, delivery


class Saying(Client):
    """Answers with one of these in each round, and with the last one from then on."""

    def __init__(self, name: str, *says: bytes) -> None:
        super().__init__(name)
        self._says = says

    def train(self, request: bytes, number: int) -> bytes:
        return self._says[min(number, len(self._says)) - 1]

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        return Loss(0.0, 0)
