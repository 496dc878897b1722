"""One normal pattern of a device, and those that were joined to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Evidence, Fresh, Packed, pack_part, unpack_part
from elmgrove.detector.model import Part, SingleModel
from elmgrove.detector.single import typical_score
from elmgrove.errors import BadInput, require_whole


@dataclass(frozen=True)
class Joined:
    """A pattern that became part of another one, as it was by itself.

    ``weight`` says how much of it is not forgotten yet, ``when`` how many rows the other one had
    learned when that was so.
    """

    number: int
    evidence: Evidence
    total: Array
    count: float
    learned: int
    weight: float
    when: int
    fresh: Fresh

    @property
    def part(self) -> Part:
        """What was learned in it, to be given away: forgotten elsewhere or not."""
        return Part(self.number, self.learned, self.evidence, self.total, self.fresh)

    @property
    def faded(self) -> Evidence:
        """What is not forgotten of its evidence."""
        return self.evidence if self.weight == 1.0 else self.evidence.weighted(self.weight)

    def aged(self, learned: int, forgetting: float) -> "Joined":
        """Gives this pattern as it is when the other one has learned so many rows."""
        weight = self.weight * forgetting ** (learned - self.when)
        return replace(self, weight=weight, when=learned)

    def pack(self, prefix: str) -> Packed:
        """Packs its fields, and its arrays under names that begin with ``prefix``."""
        numbers, arrays = pack_part(prefix, self.evidence)
        known = {name: getattr(self, name) for name in ("number", "learned", "weight", "when")}
        return {**known, "rows": self.count, **numbers}, {**arrays, f"{prefix}.total": self.total}


class Pattern:
    """A model of rows that are alike, and where they lie: sums, so that both can be merged.

    The model's own evidence is that of the rows learned here. Patterns that were joined to this
    one, and what others know of it, are what it rests on: they can be taken away again exactly.
    """

    def __init__(self, number: int, model: SingleModel) -> None:
        self.number = number
        self.model = model
        #: Σ x and how many, of the rows learned here.
        self.total: Array = np.zeros(model.basis.inputs)
        self.count = 0.0
        #: Rows learned here since the start, forgotten or not.
        self.learned = 0
        #: Rows that went to other patterns since the last that came here.
        self.idle = 0
        #: The score of a typical row, as it was when last measured; infinite if not known.
        self.typical = np.inf
        #: Patterns that became part of this one.
        self.joined: list[Joined] = []
        self._received: tuple[Evidence, ...] = ()

    @property
    def numbers(self) -> list[int]:
        """Its number, and those of what was joined to it."""
        return [self.number, *(joined.number for joined in self.joined)]

    @property
    def parts(self) -> list[Part]:
        """What was learned here and in what was joined, each by itself."""
        model = self.model
        own = Part(self.number, self.learned, model.evidence, self.total, model.fresh)
        return [own, *(joined.part for joined in self.joined)]

    @property
    def evidence(self) -> Evidence:
        """All of its rows: those learned here, and those of what was joined."""
        return Evidence.sum([self.model.evidence, *(joined.faded for joined in self.joined)])

    @property
    def centroid(self) -> Array:
        """Where its rows lie in the middle."""
        total, count = self.total, self.count
        for joined in self.joined:
            total, count = (
                total + joined.weight * joined.total,
                count + joined.weight * joined.count,
            )
        return total / (count or 1.0)

    def move(self, x: Array) -> None:
        """Lets the centroid follow a row; as fast as the model forgets."""
        keep = self.model.forgetting
        self.total = keep * self.total + x
        self.count = keep * self.count + 1.0
        self.learned += 1

    @property
    def measured(self) -> float:
        """The score to be expected of one more row of this pattern: of its own rows alone.

        What others know of it does not count, so that it does not matter when that came.
        """
        return typical_score(self.evidence, self.model.ridge)

    def rest_on(self, parts: Sequence[Evidence]) -> None:
        """Lets these take the place of all that others know of this pattern."""
        self._received = tuple(parts)
        self._update()

    def take_in(self, other: "Pattern") -> None:
        """Makes another pattern part of this one."""
        other.age()
        self.joined.append(
            Joined(
                number=other.number,
                evidence=other.model.evidence,
                total=other.total,
                count=other.count,
                learned=other.learned,
                weight=1.0,
                when=self.learned,
                fresh=other.model.fresh,
            )
        )
        self.joined += [replace(joined, when=self.learned) for joined in other.joined]
        self.idle = min(self.idle, other.idle)
        self._update()

    def release(self, number: int, into: "Pattern") -> None:
        """Makes what was joined a pattern of its own, as it was."""
        (joined,) = (joined for joined in self.joined if joined.number == number)
        into.model.merge(joined.evidence)
        into.total, into.count = joined.total, joined.count
        into.learned = into.model.learned = joined.learned
        self.joined.remove(joined)
        self._update()

    def reduce_to(self, rest: Part) -> None:
        """Goes on with what is left of its own rows, or of those of a pattern joined to it."""
        assert rest.total is not None, "what was learned in a pattern has a place"
        if rest.number == self.number:
            self.total, self.count = rest.total, rest.evidence.count
            self.model.reduce_to(rest)
            return
        changed = [
            replace(one, evidence=rest.evidence, total=rest.total, count=rest.evidence.count)
            if one.number == rest.number
            else one
            for one in self.joined
        ]
        self.joined = [one for one in changed if one.count > 0.0]
        self._update()

    def age(self) -> None:
        """Forgets of what was joined what the rows learned since then make it forget."""
        forgetting = self.model.forgetting
        self.joined = [joined.aged(self.learned, forgetting) for joined in self.joined]
        if forgetting < 1.0 and self.joined:
            self._update()

    def forget_by(self, forgetting: float) -> None:
        """Lets each row make those before it count so much less, from the next one on."""
        self.age()
        self.model.forget_by(forgetting)

    def _update(self) -> None:
        known = [*(joined.faded for joined in self.joined), *self._received]
        self.model.use_prior(Evidence.sum(known) if known else None)

    # On disk

    def pack(self, prefix: str) -> Packed:
        """Packs its fields, and its arrays under names that begin with ``prefix``."""
        numbers, arrays = pack_part(prefix, self.model.evidence)
        arrays[f"{prefix}.total"] = self.total
        joined = list[dict[str, Any]]()
        for index, one in enumerate(self.joined):
            known, parts = one.pack(f"{prefix}.joined.{index}")
            joined.append(known)
            arrays |= parts
        fields = {
            "number": self.number,
            "rows": self.count,
            "learned": self.learned,
            "idle": self.idle,
            # JSON has no infinity.
            "typical": self.typical if self.typical < np.inf else None,
            "joined": joined,
            **numbers,
        }
        return fields, arrays

    def restore(self, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Takes the place of a pattern that was packed under this ``prefix``."""
        basis = self.model.basis
        self.model.merge(unpack_part(basis, prefix, fields, arrays))
        self.total, self.count = arrays[f"{prefix}.total"], fields["rows"]
        self.learned = self.model.learned = require_whole("learned", fields["learned"], 0)
        self.idle = require_whole("idle", fields["idle"], 0)
        if fields["typical"] is not None:
            self.typical = float(fields["typical"])
        for index, one in enumerate(fields["joined"]):
            name = f"{prefix}.joined.{index}"
            self.joined.append(
                Joined(
                    number=one["number"],
                    evidence=unpack_part(basis, name, one, arrays),
                    total=arrays[f"{name}.total"],
                    count=one["rows"],
                    learned=one["learned"],
                    weight=one["weight"],
                    when=one["when"],
                    fresh=Fresh(basis),
                )
            )
        if any(one.total.shape != self.total.shape for one in self.joined) or (
            self.total.shape != (basis.inputs,)
        ):
            raise BadInput("a centroid that does not fit the inputs")
