"""Agendas: what a server of our own is told in order to hold a federation in rounds."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Packed
from elmgrove.errors import BadInput, require_whole
from elmgrove.federation import EVIDENCE, Terms, require_distance, require_name
from elmgrove.rounds.average import AverageRule
from elmgrove.rounds.balanced import BalancedSumRule
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.groups import GroupRule
from elmgrove.rounds.messages import Task
from elmgrove.rounds.plan import RuleName
from elmgrove.rounds.rules import RoundRule, SumRule
from elmgrove.rounds.target import Target
from elmgrove.storage import require_written_as, seal, unpacking, unseal

#: The format of an opening's bytes.
OPENING_FORMAT = "elmgrove.opening"
# More is a mistake: a month to answer, and rounds and clients beyond any that were ever held.
_LONGEST, _MOST = 31 * 86400.0, 10**6
_HIGHEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Agenda:
    """The rule of a federation in rounds, how many rounds there are, and who is asked when.

    The first round begins when so many ``clients`` have joined; those that join later are drawn
    from the next round on. Each round draws a ``fraction`` of them by the ``seed``, and ends when
    all drawn clients answered or after ``deadline`` seconds. ``groups`` and ``distance`` are
    those of ``GroupRule``. Clients learn to predict a ``target``; without one they are detectors.
    ``members`` are patterns of names that may
    join, and keys expire after ``key_days``, as in a ``Charter``.
    """

    name: str
    rule: str
    clients: int
    rounds: int = 1
    fraction: float = 1.0
    seed: int = 0
    deadline: float = 3600.0
    groups: int | None = None
    distance: str = EVIDENCE
    target: Target | None = None
    members: tuple[str, ...] | None = None
    key_days: float | None = None

    def __post_init__(self) -> None:
        require_name("a federation's", self.name)
        if self.rule not in tuple(RuleName):
            raise BadInput(f"rule must be one of {', '.join(RuleName)}, not {self.rule!r:.40}")
        for what, least in (("clients", 1), ("rounds", 1), ("seed", 0)):
            most = _HIGHEST_SEED if what == "seed" else _MOST
            if require_whole(what, getattr(self, what), least) > most:
                raise BadInput(f"{what} must be at most {most:,}")
        if self.groups is not None:
            require_whole("groups", self.groups, 1)
        require_distance(self.distance)
        _require_number("fraction", self.fraction, 0.0, 1.0)
        _require_number("deadline", self.deadline, 0.001, _LONGEST)
        for pattern in self.members or ():
            if not isinstance(pattern, str):
                raise BadInput(f"members are patterns of names, not {pattern!r:.40}")
        _ = self.terms

    @property
    def terms(self) -> Terms:
        """The terms of the federation: how long keys last."""
        return Terms(key_days=self.key_days)

    def round_rule(self, request: bytes) -> RoundRule[Any]:
        """Makes the rule whose next request is this one, to be resumed."""
        if self.rule == RuleName.fedavg:
            return AverageRule.asking(self.name, request)
        task = Task.from_bytes(request)
        if self.rule == RuleName.groups:
            how: dict[str, Any] = {"count": self.groups, "distance": self.distance}
            return GroupRule(self.name, task.basis, task.ridge, **how)
        if self.rule == RuleName.balanced:
            return BalancedSumRule(self.name, task.basis, task.classes, task.ridge)
        return SumRule(self.name, task.basis, task.ridge)

    @property
    def fields(self) -> dict[str, Any]:
        """The agenda as JSON holds it."""
        stated = asdict(self)
        stated["target"] = None if self.target is None else self.target.fields
        stated["members"] = None if self.members is None else list(self.members)
        return stated

    @classmethod
    def from_fields(cls, stated: Mapping[str, Any]) -> "Agenda":
        """Makes an agenda of what ``fields`` gave; ``BadInput`` for anything else."""
        try:
            target, members = stated["target"], stated["members"]
            read = {
                "target": None if target is None else Target.from_fields(target),
                "members": None if members is None else tuple(members),
            }
            return cls(**{**stated, **read})
        except BadInput:
            raise
        except Exception as error:  # a stranger's fields can fail in any way there is
            raise BadInput(f"not an agenda: {error!r:.200}") from error


def _require_number(name: str, value: Any, least: float, most: float) -> None:
    if type(value) not in (int, float) or not least <= value <= most or math.isnan(value):
        raise BadInput(f"{name} must be a number from {least:g} to {most:g}, not {value!r:.40}")


class BetweenRounds(NamedTuple):
    """What a server holds of a federation between two rounds: with an agenda it makes the rule.

    ``kept`` are replies of earlier rounds that the rule needs, by the clients' names.
    """

    request: bytes
    progress: Mapping[str, Any]
    kept: Mapping[str, bytes]

    def rule(self, agenda: Agenda) -> RoundRule[Any]:
        """Makes the rule as it was after the last round."""
        rule = agenda.round_rule(self.request)
        read = [rule.read(origin, self.kept[origin]) for origin in sorted(self.kept)]
        rule.resume(self.progress, [reply for reply in read if reply is not None])
        return rule


@dataclass(frozen=True)
class Opening:
    """What makes a federation in rounds on a server: its agenda, first request and test rows."""

    agenda: Agenda
    request: bytes
    progress: Mapping[str, Any]
    exam: Exam | None = None

    def __post_init__(self) -> None:
        exam, basis = self.exam, self.task.basis
        if exam is not None:
            columns, outputs = exam.X.shape[1], exam.targets(basis).shape[1]
            if (columns, outputs) != (basis.inputs, basis.outputs):
                raise BadInput(
                    f"test rows of {columns} columns and {outputs} targets do not fit a model of "
                    f"{basis.inputs} and {basis.outputs}"
                )

    @classmethod
    def of(cls, agenda: Agenda, rule: RoundRule[Any], exam: Exam | None = None) -> "Opening":
        """Makes the opening of a federation that begins with this rule as it is."""
        # Asked in the name of this federation from the first round on.
        named = BetweenRounds(rule.request(), rule.progress, {}).rule(agenda)
        return cls(agenda, named.request(), named.progress, exam)

    @property
    def task(self) -> Task:
        """The first task, with the basis and the ridge that all clients learn with."""
        return BetweenRounds(self.request, self.progress, {}).rule(self.agenda).task

    def to_bytes(self) -> bytes:
        """Gives the message as it is sent: sealed, with a checksum."""
        return seal(OPENING_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        arrays: dict[str, Any] = {"request": np.frombuffer(self.request, np.uint8)}
        if self.exam is not None:
            arrays["exam"] = np.frombuffer(self.exam.to_bytes(), np.uint8)
        return {"agenda": self.agenda.fields, "progress": dict(self.progress)}, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Opening":
        """Makes an opening of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        stated, arrays = unseal(OPENING_FORMAT, blob)
        with unpacking("an opening"):
            agenda = Agenda.from_fields(stated["agenda"])
            exam = Exam.from_bytes(arrays["exam"].tobytes()) if "exam" in arrays else None
            made = cls(agenda, arrays["request"].tobytes(), stated["progress"], exam)
            require_written_as(made._packed(), stated, arrays)
        return made
