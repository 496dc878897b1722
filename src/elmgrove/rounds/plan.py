"""Plans: everything that a federation in rounds needs, on any engine."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.detector.patterns import PatternRule
from elmgrove.errors import BadInput
from elmgrove.federation.charter import Charter
from elmgrove.federation.groups import EVIDENCE, require_distance
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from elmgrove.rounds.balanced import BalancedSumClient, BalancedSumRule
from elmgrove.rounds.clients import AverageClient, Client, DeviceClient, SumClient
from elmgrove.rounds.evaluation import Exam, models_of
from elmgrove.rounds.messages import PLAIN, require_bits
from elmgrove.rounds.predictor import Predictor, Target
from elmgrove.rounds.rules import AverageRule, GroupRule, RoundRule, SumRule
from elmgrove.storage.disk import load, save

#: What the federation of a plan is called, and the member that holds its result.
NAME = "federation"
_SAVED = (
    *("rule", "rounds", "fraction", "seed", "ridge"),
    *("bits", "groups", "distance", "timeout", "classes"),
)


class RuleName(StrEnum):
    """The names of the rules: ``SumRule``, ``AverageRule``, ``GroupRule``, ``BalancedSumRule``."""

    e2lm = "e2lm"
    fedavg = "fedavg"
    groups = "groups"
    balanced = "balanced"

    def batch_rows(self, basis: Basis) -> int:
        """Gives how many rows of its own a server begins with: only Fed-ELMS needs any.

        They are twice as many as it must have, since some may be alike.
        """
        return 2 * basis.layer.units if self is RuleName.fedavg else 0


@dataclass(frozen=True)
class Plan:
    """A rule, a basis, the number of rounds, the share of clients to draw, and each client's rows.

    By round r of R a client has the first ⌊N·r/R⌋ of its N rows. Clients are detectors, unless
    there are ``targets``: those of each client's rows, as they are learned; where they are those
    of ``classes``, these name their columns. ``batch`` has the rows
    with which Fed-ELMS begins (``batch_targets``), and ``bits`` is the width of a number in its
    messages; ``groups`` is how many MLMG makes (None: as many as it finds), by which ``distance``.
    A client that takes longer than ``timeout`` seconds is left out. In the ``exam`` the server
    tests the global model after every round. Flower's processes read the plan from a folder.
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
    targets: Mapping[str, Array] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    batch_targets: Array = field(default_factory=lambda: np.empty((0, 0)))
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
        if self.rule == RuleName.balanced and not (self.targets and self.classes):
            raise BadInput("rule balanced weighs classes, so it needs targets that are classes")

    def round_rule(self) -> RoundRule[Any]:
        """Makes the server's side; ``BadInput`` if it can't begin or can't end as asked."""
        if self.rule == RuleName.fedavg:
            X0 = self.basis.scaling(self.batch)
            T0 = self.batch_targets if self.targets else X0
            return AverageRule(NAME, self.basis, X0, T0, bits=self.bits)
        if self.rule == RuleName.groups:
            self._require_groups()
            return GroupRule(
                NAME, self.basis, self.ridge, count=self.groups, distance=self.distance
            )
        if self.rule == RuleName.balanced:
            return BalancedSumRule(NAME, self.basis, self.classes, self.ridge)
        return SumRule(NAME, self.basis, self.ridge)

    def require_possible(self) -> None:
        """Raises ``BadInput`` if ``round_rule`` would, for an engine that calls it elsewhere.

        It makes a rule, since nothing but Fed-ELMS' first model shows that there is one.
        """
        self.round_rule()

    def _require_groups(self) -> None:
        each = 1 if self.targets else PatternRule.most
        most = sum(min(each, len(rows)) for rows in self.rows.values())
        if self.groups is not None and self.groups > most:
            raise BadInput(f"{self.groups} groups, where clients have {most} patterns at most")

    def client(self, name: str, memory: bytes = b"") -> Client:
        """Makes a client, with what it remembers of earlier rounds."""
        rows, targets = self.rows[name], self.targets[name] if self.targets else None

        def until(number: int) -> Array:
            return rows[: len(rows) * number // self.rounds]

        def pairs(number: int) -> tuple[Array, Array]:
            X = until(number)
            return X, self.basis.scaling(X) if targets is None else targets[: len(X)]

        if self.rule == RuleName.fedavg:
            return AverageClient(name, pairs, memory=memory)
        if self.rule == RuleName.balanced:
            return BalancedSumClient(name, pairs, self.classes, memory=memory)
        if targets is not None:
            return SumClient(name, pairs, memory=memory)
        # The rows of the first round decide how many patterns there are.
        first = max(2, min(PatternRule.start_rows, len(until(1))))
        patterns = PatternRule(start_rows=first) if self.rule == RuleName.groups else None
        # All rows are on this machine, so there is nothing to guard.
        return DeviceClient(name, until, patterns=patterns, guarded=False, memory=memory)

    @property
    def solving_ridge(self) -> float:
        """The ridge with which the result is solved: Fed-ELMS' β is that of none."""
        return 0.0 if self.rule == RuleName.fedavg else self.ridge

    def member(self, merged: Merged) -> Member:
        """Makes a member without rows of its own that knows what all clients know."""
        patterns = PatternRule() if self.rule == RuleName.groups else None
        member = Charter(NAME, self.basis, self.solving_ridge, merged=True).start(
            NAME, patterns=patterns
        )
        member.set_prior(merged)
        return member

    def predictor(self, merged: Merged, target: Target, layout: Mapping[str, Any]) -> Predictor:
        """Makes a predictor that knows what all clients know, for rows of this layout."""
        return Predictor(self.basis, target, models_of(merged, self.solving_ridge), layout)

    def save(self, folder: Path) -> None:
        """Writes the plan into a folder: numbers as JSON, rows as .npy files."""
        saved = {name: getattr(self, name) for name in _SAVED}
        names = {"rows": sorted(self.rows), "targets": sorted(self.targets)}
        fields = {**saved, "basis": self.basis.fields, **names}
        (folder / "plan.json").write_text(json.dumps(fields), encoding="utf-8")
        np.save(folder / "batch.npy", self.batch)
        np.save(folder / "batch_targets.npy", self.batch_targets)
        SavedRows.write(folder / "rows", self.rows)
        SavedRows.write(folder / "targets", self.targets)
        if self.exam is not None:
            save(folder / "exam", self.exam)

    @classmethod
    def load(cls, folder: Path) -> "Plan":
        """Makes a plan of what ``save`` wrote; rows are read when they are asked for."""
        fields = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        saved = {name: fields[name] for name in _SAVED} | {"classes": tuple(fields["classes"])}
        rows, targets = (SavedRows(folder / part, fields[part]) for part in ("rows", "targets"))
        return cls(
            basis=Basis.from_fields(fields["basis"]),
            rows=rows,
            batch=np.load(folder / "batch.npy", allow_pickle=False),
            targets=targets,
            batch_targets=np.load(folder / "batch_targets.npy", allow_pickle=False),
            exam=load(exam, Exam.from_bytes) if (exam := folder / "exam").exists() else None,
            **saved,
        )


class SavedRows(Mapping[str, Array]):
    """Each client's rows or targets by its name, read from a file when they are asked for."""

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
        folder.mkdir()
        for index, name in enumerate(sorted(rows)):
            np.save(folder / f"{index}.npy", rows[name])
