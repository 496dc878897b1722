"""Clients of federations in rounds, and a run of them in this process."""

from collections.abc import Mapping, Sequence

import numpy as np

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.federation.contribution import Contribution
from elmgrove.rounds.clients import Client, SumClient
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.loop import InProcess, RoundReport, run_rounds
from elmgrove.rounds.plan import Plan
from elmgrove.rounds.rules import RoundRule
from support.factories import evidence_of
from support.patterns import INPUTS

BASIS = Basis(HiddenLayer(INPUTS, 3, seed=7), INPUTS)
OTHER = Basis(HiddenLayer(INPUTS, 3, seed=8), INPUTS)


def device(name: str, rows: np.ndarray, rounds: int = 1, memory: bytes = b"") -> SumClient:
    """A client with an equal part of its rows in each round, which learns them as a detector."""

    def until(number: int) -> tuple[np.ndarray, np.ndarray]:
        seen = rows[: len(rows) * number // rounds]
        return seen, seen

    return SumClient(name, until, memory=memory)


def client_evidence(rows: np.ndarray, basis: Basis = BASIS) -> Evidence:
    return evidence_of(rows, basis)


def client_message(origin: str, evidence: Evidence) -> bytes:
    """A client's message."""
    return Contribution(origin, 9, (evidence,)).to_bytes()


def run(
    rule: RoundRule,
    clients: Mapping[str, Client] | Sequence[Client],
    rounds: int = 1,
    **more: object,
) -> list[RoundReport]:
    """All rounds in this process, with all clients unless another fraction is given."""
    reports: list[RoundReport] = []
    if not isinstance(clients, Mapping):
        clients = {client.name: client for client in clients}
    chosen = {"rounds": rounds, "fraction": 1.0, "seed": 0} | more
    run_rounds(rule, InProcess(clients), on_round=reports.append, **chosen)
    return reports


def plan_with_targets(rule: str, rounds: int = 3, fraction: float = 0.6, **more: object) -> Plan:
    """Clients with rows of two kinds, unequally many of each, and a server that tests them."""
    basis = Basis(HiddenLayer(INPUTS, 8, "relu", seed=7), 2)
    pairs = {f"c{index}": _two_kinds(index, 12 * index, 5 * index) for index in range(7)}
    batch, test = _two_kinds(99, 20, 20), _two_kinds(98, 30, 30)
    return Plan(
        rule,
        basis,
        {name: X for name, (X, _) in pairs.items()},
        rounds=rounds,
        fraction=fraction,
        seed=5,
        batch=batch[0],
        targets={name: T for name, (_, T) in pairs.items()},
        batch_targets=batch[1],
        exam=Exam(*test, ("one", "other")),
        **more,
    )


def _two_kinds(seed: int, *counts: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(np.repeat([0, 1], counts))
    X = rng.normal(size=(len(kinds), INPUTS)) + 2.0 * kinds[:, np.newaxis]
    return X, np.eye(2)[kinds]


class Saying(Client):
    """Answers with one of these in each round, and with the last one from then on."""

    def __init__(self, name: str, *says: bytes) -> None:
        super().__init__(name)
        self._says = says

    def train(self, request: bytes, number: int) -> bytes:
        return self._says[min(number, len(self._says)) - 1]
