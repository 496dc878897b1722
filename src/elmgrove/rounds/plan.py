"""Plans: everything that a federation in rounds needs, on any engine."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.detector.patterns import PatternRule
from elmgrove.errors import BadInput
from elmgrove.federation.charter import Charter
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from elmgrove.rounds.clients import AverageClient, Client, SumClient
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.loop import Engine, InProcess, RoundReport, run_rounds
from elmgrove.rounds.rules import AverageRule, GroupRule, RoundRule, SumRule


class RuleName(StrEnum):
    e2lm = "e2lm"
    fedavg = "fedavg"
    groups = "groups"


@dataclass(frozen=True)
class Plan:
    """A rule, a basis, the number of rounds, the share of clients to draw, and each client's rows.

    By round r of R a client has the first ⌊N·r/R⌋ of its N rows. What it learns of each are
    ``targets``, or without any the scaled row itself, as a detector does. ``batch`` has the rows
    with which Fed-ELMS begins (``batch_targets``), and ``bits`` is the width of a number in its
    messages. In the ``exam`` the server tests the global model after every round.
    """

    rule: str
    basis: Basis
    rows: Mapping[str, Array]
    rounds: int = 1
    fraction: float = 1.0
    seed: int = 0
    batch: Array = field(default_factory=lambda: np.empty((0, 0)))
    bits: int = 64
    targets: Mapping[str, Array] = field(default_factory=dict)
    batch_targets: Array = field(default_factory=lambda: np.empty((0, 0)))
    exam: Exam | None = None

    #: What the federation of a plan is called, and the member that holds its result.
    name = "federation"

    def __post_init__(self) -> None:
        if self.rule not in tuple(RuleName):
            raise BadInput(f"rule must be one of {', '.join(RuleName)}, not {self.rule!r}")
        if self.bits != 64 and self.rule != RuleName.fedavg:
            raise BadInput(f"{self.bits} bits are for rule fedavg, not for {self.rule}")

    def round_rule(self) -> RoundRule[Any]:
        """The server's side; ``BadInput`` if it can't begin as asked."""
        if self.rule == RuleName.fedavg:
            X0 = self.basis.scaling(self.batch)
            T0 = self.batch_targets if self.targets else X0
            return AverageRule(self.name, self.basis, X0, T0, bits=self.bits)
        made = GroupRule if self.rule == RuleName.groups else SumRule
        return made(self.name, self.basis, self.ridge)

    def client(self, name: str, memory: bytes = b"") -> Client:
        """A client, with what it remembers of earlier rounds."""
        rows = self.rows[name]
        targets = self.targets[name] if self.targets else self.basis.scaling(rows)

        def pairs(number: int) -> tuple[Array, Array]:
            count = len(rows) * number // self.rounds
            return rows[:count], targets[:count]

        made = AverageClient if self.rule == RuleName.fedavg else SumClient
        return made(name, pairs, memory=memory)

    @property
    def ridge(self) -> float:
        """The ridge with which the result is solved: Fed-ELMS' β is that of none."""
        return 0.0 if self.rule == RuleName.fedavg else 1e-3

    def member(self, merged: Merged) -> Member:
        """A member without rows of its own that knows what all clients know."""
        charter = Charter(self.name, self.basis, self.ridge, merged=True)
        patterns = PatternRule() if self.rule == RuleName.groups else None
        member = charter.start(self.name, patterns=patterns)
        member.set_prior(merged)
        return member

    def run(
        self, rule: RoundRule[Any], engine: Engine, on_round: Callable[[RoundReport], None]
    ) -> None:
        chosen: dict[str, Any] = {
            "rounds": self.rounds,
            "fraction": self.fraction,
            "seed": self.seed,
        }
        run_rounds(rule, engine, **chosen, exam=self.exam, on_round=on_round)

    def with_rows_in(self, folder: Path) -> "Plan":
        """Write rows and targets into files, from which clients in other processes read them."""
        rows = SavedRows.write(folder / "rows", self.rows)
        targets = SavedRows.write(folder / "targets", self.targets)
        return replace(self, rows=rows, targets=targets)


class SavedRows(Mapping[str, Array]):
    """Each client's rows or targets by its name, read from a file when they are asked for."""

    def __init__(self, folder: Path, numbers: Mapping[str, int]) -> None:
        self._folder = folder
        self._numbers = numbers

    def __getitem__(self, name: str) -> Array:
        rows: Array = np.load(self._folder / f"{self._numbers[name]}.npy", allow_pickle=False)
        return rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    @classmethod
    def write(cls, folder: Path, rows: Mapping[str, Array]) -> "SavedRows":
        folder.mkdir()
        numbers = {name: number for number, name in enumerate(rows)}
        for name, number in numbers.items():
            np.save(folder / f"{number}.npy", rows[name])
        return cls(folder, numbers)


def run_plan(plan: Plan, on_round: Callable[[RoundReport], None]) -> Merged:
    """Run a plan in this process; returns what the clients know together."""
    rule, clients = plan.round_rule(), {name: plan.client(name) for name in plan.rows}
    plan.run(rule, InProcess(clients), on_round)
    return rule.merged()
