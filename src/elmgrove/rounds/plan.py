"""Plans: everything that a federation of detectors in rounds needs, on either engine."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Basis
from elmgrove.detector import PatternRule
from elmgrove.errors import BadInput
from elmgrove.federation import EVIDENCE, MERGED, Charter, Member, Merged, require_distance
from elmgrove.rounds.average import AverageRule
from elmgrove.rounds.clients import AverageClient, Client, DeviceClient
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.groups import GroupRule
from elmgrove.rounds.messages import PLAIN, require_bits
from elmgrove.rounds.rules import RoundRule, SumRule

#: What the federation of a plan is called, and the member that holds its result.
NAME = "federation"
_SAVED = ("rule", "rounds", "fraction", "seed", "ridge", "bits", "groups", "distance", "timeout")


class RuleName(StrEnum):
    """The names of the rules: ``SumRule``, ``AverageRule`` and ``GroupRule``."""

    e2lm = "e2lm"
    fedavg = "fedavg"
    groups = "groups"

    def batch_rows(self, basis: Basis) -> int:
        """Gives how many rows of its own a server begins with: only Fed-ELMS needs any.

        They are twice as many as it must have, since some may be alike.
        """
        return 2 * basis.layer.units if self is RuleName.fedavg else 0


@dataclass(frozen=True)
class Plan:
    """A rule, a basis, the number of rounds, the share of clients to draw, and each client's rows.

    By round r of R a client has the first ⌊N·r/R⌋ of its N rows. ``batch`` has the rows with which
    Fed-ELMS begins, and ``bits`` is the width of a number in its messages; ``groups`` is how many
    MLMG makes (None: as many as it finds), by which ``distance``. A client that takes longer than
    ``timeout`` seconds is left out. Flower's processes read the plan from a folder.
    """

    rule: str
    basis: Basis
    rows: Mapping[str, Array]
    rounds: int = 1
    fraction: float = 1.0
    seed: int = 0
    ridge: float = 1e-3
    batch: Array = field(default_factory=lambda: np.empty((0, 0)))
    bits: int = PLAIN
    groups: int | None = None
    distance: str = EVIDENCE
    timeout: float | None = None
    exam: Exam | None = None

    def __post_init__(self) -> None:
        if self.rule not in tuple(RuleName):
            raise BadInput(f"rule must be one of {', '.join(RuleName)}, not {self.rule!r}")
        require_bits(self.bits)
        require_distance(self.distance)
        if self.bits != PLAIN and self.rule != RuleName.fedavg:
            raise BadInput(f"{self.bits} bits are for rule fedavg, not for {self.rule}")
        if (self.groups, self.distance) != (None, EVIDENCE) and self.rule != RuleName.groups:
            raise BadInput(f"groups and their distance are for rule groups, not for {self.rule}")

    def round_rule(self) -> RoundRule[Any]:
        """Makes the server's side; ``BadInput`` if it can't begin or can't end as asked."""
        if self.rule == RuleName.fedavg:
            X0 = self.basis.scaling(self.batch)
            return AverageRule(NAME, self.basis, X0, X0, bits=self.bits)
        if self.rule == RuleName.groups:
            self._require_groups()
            return GroupRule(
                NAME, self.basis, self.ridge, count=self.groups, distance=self.distance
            )
        return SumRule(NAME, self.basis, self.ridge)

    def require_possible(self) -> None:
        """Raises ``BadInput`` if ``round_rule`` would, for an engine that calls it elsewhere.

        It makes a rule, since nothing but Fed-ELMS' first model shows that there is one.
        """
        self.round_rule()

    def _require_groups(self) -> None:
        most = sum(min(PatternRule.most, len(rows)) for rows in self.rows.values())
        if self.groups is not None and self.groups > most:
            raise BadInput(f"{self.groups} groups, where clients have {most} patterns at most")

    def client(self, name: str, memory: bytes = b"", *, state: Path | None = None) -> Client:
        """Makes a client, with what it remembers of earlier rounds.

        One with a ``state`` file is that of a device of its own, and has the upload guard.
        """
        rows = self.rows[name]

        def until(number: int) -> Array:
            return rows[: len(rows) * number // self.rounds]

        def pairs(number: int) -> tuple[Array, Array]:
            X = until(number)
            return X, self.basis.scaling(X)

        if self.rule == RuleName.fedavg:
            return AverageClient(name, pairs, memory=memory)
        # The rows of the first round decide how many patterns there are.
        first = max(2, min(PatternRule.start_rows, len(until(1))))
        patterns = PatternRule(start_rows=first) if self.rule == RuleName.groups else None
        # Where all rows are on this machine there is nothing to guard.
        kept: dict[str, Any] = {"guarded": state is not None, "memory": memory, "state": state}
        return DeviceClient(name, until, patterns=patterns, **kept)

    def member(self, merged: Merged) -> Member:
        """Makes a member without rows of its own that knows what all clients know."""
        patterns = PatternRule() if self.rule == RuleName.groups else None
        # Fed-ELMS' β is that of no ridge.
        ridge = 0.0 if self.rule == RuleName.fedavg else self.ridge
        member = Charter(NAME, self.basis, ridge, alarm=MERGED).start(NAME, patterns=patterns)
        member.rest_on(merged)
        return member

    def save(self, folder: Path) -> None:
        """Writes the plan into a folder: numbers as JSON, rows as .npy files."""
        saved = {name: getattr(self, name) for name in _SAVED}
        fields = {**saved, "basis": self.basis.fields, "clients": sorted(self.rows)}
        (folder / "plan.json").write_text(json.dumps(fields), encoding="utf-8")
        np.save(folder / "batch.npy", self.batch)
        SavedRows.write(folder, self.rows)

    @classmethod
    def load(cls, folder: Path) -> "Plan":
        """Makes a plan of what ``save`` wrote; rows are read when they are asked for."""
        fields = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        saved = {name: fields[name] for name in _SAVED}
        rows = SavedRows(folder, fields["clients"])
        batch = np.load(folder / "batch.npy", allow_pickle=False)
        return cls(basis=Basis.from_fields(fields["basis"]), rows=rows, batch=batch, **saved)


class SavedRows(Mapping[str, Array]):
    """Each client's rows by its name, read from a file when they are asked for."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = {name: index for index, name in enumerate(names)}

    def __getitem__(self, name: str) -> Array:
        rows: Array = np.load(self._folder / f"{self._names[name]}.npy", allow_pickle=False)
        return rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @classmethod
    def write(cls, folder: Path, rows: Mapping[str, Array]) -> None:
        """Writes a file for each client, numbered in the order of the names."""
        for index, name in enumerate(sorted(rows)):
            np.save(folder / f"{index}.npy", rows[name])
