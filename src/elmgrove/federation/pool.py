"""The pool: what all devices contributed, from which each gets what its rule chooses."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import zero_evidence
from elmgrove.algebra.similarity import fit, groups, usual_tolerance
from elmgrove.errors import Refused, SingularSystem
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import StandingGroups, group, local_models
from elmgrove.federation.merged import MOST_NAMES, Merged
from elmgrove.federation.selection import (
    EVERYONE,
    Choice,
    Judgement,
    Quality,
    Rule,
    SameGroup,
    in_groups,
    judge,
)
from elmgrove.federation.sums import weight_in, weighted
from elmgrove.federation.terms import tellable

#: Patterns, or devices, that are compared with each other at the most.
MOST_PATTERNS = 500


class Pool:
    """Keeps the newest contribution of each device, and adds up those that a rule chooses.

    The groups that come back to devices (MLMG) are made when somebody asks for them, and stand from
    then on while devices come, change and leave. Everything is held in memory.
    """

    def __init__(self, charter: Charter, contributions: Iterable[Contribution] = ()) -> None:
        self._charter = charter
        self.held = {one.origin: one for one in contributions}
        self._returning: StandingGroups | None = None
        self._changes = 0
        self._judged: tuple[int, Judgement] | None = None
        #: Whether a comparison of all devices may be older than what they contributed last.
        self.patient = False

    @property
    def nbytes(self) -> int:
        """What the groups that come back hold at the most."""
        return 0 if self._returning is None else self._returning.nbytes

    def replace(self, origin: str, new: Contribution | None) -> Contribution | None:
        """Puts a contribution in the place of the device's former one, which it gives; or none."""
        self._changes += 1
        former = self.held.pop(origin, None)
        if new is not None:
            self.held[origin] = new
        if self._returning is not None:
            try:
                if new is None:
                    self._returning.leave(origin)
                else:
                    self._returning.take(new)
            except SingularSystem:
                self._returning.leave(origin)
        return former

    def merged(
        self,
        revision: int,
        origin: str,
        rule: Rule = EVERYONE,
        least: int = 1,
        *,
        patterns: bool = False,
    ) -> Merged:
        """Adds up those that the rule chooses; by group where it says so, or for ``patterns``."""
        choice = self.choose(origin, rule, least)
        chosen = [self.held[name] for name in sorted(choice.names)]
        if isinstance(rule, SameGroup):
            parts = self._returned.returned(origin, least) if chosen else ()
            return self.answer(revision, rule, choice, parts)
        if patterns:
            groups = _told_apart(self._charter, chosen)
            sizes = {place: names for place, (names, _) in enumerate(groups)}
            told = tellable(sizes, sizes, least) if least > 1 else list(sizes)
            return self.answer(revision, rule, choice, tuple(groups[place][1] for place in told))
        counted = [weighted(self._charter.terms, one.evidence) for one in chosen]
        total = (Evidence.sum(counted),) if counted else ()
        return self.answer(revision, rule, choice, total, apart=False)

    def choose(self, origin: str, rule: Rule, least: int = 1) -> Choice:
        """Chooses whom a device learns from: at least so many, and as many are left out, or none.

        What a few are left out with would be the sum over all without that over the others.
        """
        held = [self.held[name] for name in sorted(self.held)]
        if isinstance(rule, SameGroup):
            choice = in_groups(origin, self._returned, held, least)
        elif isinstance(rule, Quality):
            choice = rule.choose_by(origin, self._judgement(held))
            # A table of before may have some that left.
            choice = replace(choice, names=choice.names & self.held.keys())
        else:
            choice = rule.choose(origin, held, self._charter.ridge)
        rest = self.held.keys() - choice.names - {origin}
        if len(choice.names) < least or 0 < len(rest) < least:
            few = dict.fromkeys(sorted(choice.names), f"sums are of {least} devices or more here")
            return Choice(frozenset(), choice.left_out | few)
        return choice

    def answer(
        self,
        revision: int,
        rule: Rule,
        choice: Choice,
        parts: tuple[Evidence, ...],
        *,
        apart: bool = True,
        **more: Any,
    ) -> Merged:
        """Makes the answer of what was found of those that were chosen."""
        return Merged(
            self._charter.name,
            revision,
            len(choice.names),
            parts or (zero_evidence(self._charter.basis),),
            str(rule),
            apart and bool(parts),
            used=tuple(sorted(choice.names)[:MOST_NAMES]),
            left_out=tuple(sorted(choice.left_out.items())[:MOST_NAMES]),
            **more,
        )

    @property
    def _returned(self) -> StandingGroups:
        """The groups that come back to devices (MLMG), of all patterns there are."""
        if self._returning is None:
            charter, held = self._charter, list(self.held.values())
            if sum(len(one.parts) for one in held) > MOST_PATTERNS:
                raise Refused(f"more than {MOST_PATTERNS} patterns are not grouped here")
            grouping = group(held, charter.ridge)
            self._returning = StandingGroups(
                charter.basis, charter.ridge, grouping, terms=charter.terms
            )
        return self._returning

    def _judgement(self, held: Sequence[Contribution]) -> Judgement:
        """All models on all evidence; to who is patient, maybe as of some changes before."""
        if self._judged is None or not (self._judged[0] == self._changes or self.patient):
            if len(held) > MOST_PATTERNS:
                raise Refused(f"more than {MOST_PATTERNS} devices are not compared here")
            self._judged = self._changes, judge(held, self._charter.ridge)
        return self._judged[1]


def _told_apart(
    charter: Charter, contributions: Sequence[Contribution]
) -> list[tuple[set[str], Evidence]]:
    """Adds up by group: what one model explains as well as several is one group."""
    models = local_models(contributions)
    if len(models) > MOST_PATTERNS:
        raise Refused(f"more than {MOST_PATTERNS} patterns are not told apart here")
    fits = [fit(model.evidence, charter.ridge) for model in models]
    found = groups(fits, usual_tolerance(charter.basis)) if models else []
    told = list[tuple[set[str], Evidence]]()
    for members in found:
        parts = dict[str, list[Evidence]]()
        for place in members:
            parts.setdefault(models[place].origin, []).append(models[place].evidence)
        counted = list[Evidence]()
        for some in parts.values():
            weight = weight_in(charter.terms, Evidence.sum(some) if len(some) > 1 else some[0])
            counted += some if weight == 1.0 else [one.weighted(weight) for one in some]
        # What is alone stays what it is, with all that is known of it already.
        total = counted[0] if len(counted) == 1 else Evidence.sum(counted)
        told.append((set(parts), total))
    return told
