"""Giving: what a device tells others of itself, and the guard over what leaves it."""

import math
from dataclasses import replace

import numpy as np

from elmgrove.algebra import ROWS_ALIKE, Array, Moments, weight_of
from elmgrove.detector import WATCHING, Detector, Part, summed
from elmgrove.errors import BadInput
from elmgrove.federation.entries import (
    HIGHEST_USABLE_EPOCH,
    Contribution,
    Departure,
    require_origin,
)
from elmgrove.federation.guard import (
    columns_covered,
    least_forgetting,
    least_new_rows,
    rows_until,
    units_covered,
)
from elmgrove.federation.member_state import Published


class Giver:
    """A device as others know it: its name, what it gave away, and what it may give away now.

    ``offer`` keeps the upload guard: what is given away covers enough new rows that they can't be
    computed from the difference. That holds for what was taken out again, too: it leaves with the
    next upload, which has as many rows as any other that no upload had before. Counted like new
    ones, rows that were taken out would guard nothing: of a hundred that came and ninety-nine that
    went, two uploads show the one. Nor do rows count that may have been learned before: of a
    hundred that went and ninety-nine of them that came again, two uploads show the one. Which
    those are is told by their times: a file that has none and is learned twice counts twice.

    Rows that are forgotten count by their weight (``rows_until``), and those of a unit that is
    mostly 0 by unit (``units_covered``). Of windows, some are withheld (``inputs_withheld``), and
    rows that columns with few values single out (``FewValues``). Where a former self gave something
    away that this state does not know of, since it was lost or restored, the rows may be the same:
    so many count for nothing as that one can have had.
    """

    def __init__(self, name: str, detector: Detector, merges: bool) -> None:
        require_origin(name)
        self.name = name
        self.detector = detector
        self.merges = merges
        self.published: Published | None = None
        #: Added to the rows learned, it makes the epoch.
        self.lead = 0
        #: The epoch of what a former self gave away, and so the most rows it can have had; or 0.
        self.former = 0

    def contribution(self) -> Contribution:
        """Gathers what this device learned itself up to now; ``offer`` gives what may leave it."""
        return self._contribution(self._now(self.detector.parts))

    def _now(self, parts: tuple[Part, ...]) -> Published:
        return Published(self.detector.learned, parts, self._threshold)

    @property
    def _threshold(self) -> float | None:
        """The threshold by which others may call a row normal here; None if they may not.

        What was learned before alarms were earned, or while it is asked whether a change is a
        fault, is not knowledge. Nor is one model of everybody: it is about others' rows as well.
        """
        detector = self.detector
        asked = detector.drift is not None and detector.drift.found
        if self.merges or asked or detector.state != WATCHING:
            return None
        return detector.threshold if detector.threshold < math.inf else None

    def _contribution(self, given: Published) -> Contribution:
        evidences = tuple(part.evidence.about_mean() for part in given.parts)
        return Contribution(self.name, self.lead + given.learned, evidences, given.threshold)

    @property
    def shared(self) -> Contribution | None:
        """What others may know of this device: what it last offered."""
        return None if self.published is None else self._contribution(self.published)

    # The guard

    def offer(self, *, guarded: bool = True) -> Contribution | None:
        """Decides what to give away now: all that was learned if the guard lets it, else as before.

        None if nothing was ever given away and the guard does not let it. Save the member
        before sending what this returns: a device that forgot what it sent can't keep the guard.
        Who switches the guard off says that a former self had other rows.
        """
        chosen, before = self._offerable(guarded), self.published
        is_new = before is None or [*map(id, chosen)] != [*map(id, before.parts)]
        if chosen and (is_new or not guarded):
            self.former = 0
        if chosen and is_new:
            self.published = self._now(tuple(self._given(part, guarded) for part in chosen))
            if before is not None and self.published.learned <= before.learned:
                # Rows were taken out and none came: newer all the same.
                self.lead += before.learned + 1 - self.published.learned
        elif before is not None and before.threshold is not None and self._threshold is None:
            # The same sums again, newer, and nobody is to call a row normal by them.
            self.published = replace(before, threshold=None)
            self.lead += 1
        return self.shared

    def rows_missing(self, *, guarded: bool = True) -> float:
        """Counts the rows that must still be learned before something new can be offered.

        At least so many: which rows come decides as well. Infinite where no number is enough.
        """
        if not guarded:
            return 0
        first = self.detector.rows_undecided
        new = [part for part in self.detector.parts if not self._unchanged(part)]
        if not new and self.published is not None:
            return 0
        least = least_new_rows(self.detector.basis)
        return max([first, min(map(self._missing, new), default=least)])

    @property
    def has_news(self) -> bool:
        """Whether there is something to send, as far as the guard lets it."""
        return self.published is not None or self.rows_missing() == 0

    def hindrance(self, *, guarded: bool = True) -> str | None:
        """Says why nothing new can be offered where learning alone may not help; else None."""
        missing, detector = self.rows_missing(guarded=guarded), self.detector
        if missing == math.inf:
            return (
                f"with forgetting {detector.model.forgetting:g} the newest rows could be computed "
                f"from what is sent: use {least_forgetting(detector.basis):g} or more, or switch "
                "the guard off"
            )
        if missing and self.former:
            return (
                f"{self.name!r} gave away up to {self.former:,} rows that this state does not know "
                f"of (was it lost or restored?), and {missing:,.0f} more are needed in case they "
                "are the same; if they are not, use another name, or switch the guard off once"
            )
        if missing and not detector.rows_undecided and any(map(self._doubtful, detector.parts)):
            return (
                "these rows may have been learned before: they were given by hand, or have times "
                "at which rows were learned; rows of other times count"
            )
        if missing and not detector.rows_undecided and any(map(self._held_up, detector.parts)):
            return (
                "columns with few values (on or off, a word) single out so many rows since the "
                f"last upload that too few are left: each must be like {ROWS_ALIKE - 1} others in "
                "them. More rows may help; else leave such columns out (--drop), or switch the "
                "guard off"
            )
        if missing and not (detector.rows_undecided or all(map(self._to_come, detector.parts))):
            return (
                "a unit of the relu layer was active in so few rows that these could be computed "
                "from what is sent: more rows may help; else use another activation, scale the "
                "columns, or switch the guard off"
            )
        return None

    def _offerable(self, guarded: bool) -> list[Part]:
        """Chooses of each pattern what the guard lets out: as it is, or as it was last given away.

        Each upload of a pattern has enough rows that none before it had, and no two patterns share
        a row: so each difference of uploads, in whatever way they are combined, is over at least
        those of the newest among them. Not before it is decided how many patterns there are: then
        other ones are made, of the same rows.
        """
        now = self.detector.parts
        if not guarded:
            known = (part if (held := self._before(part)) != part else held for part in now)
            return [part for part in known if part is not None]
        if self.detector.rows_undecided:
            return []
        chosen = (
            self._before(part) if self._unchanged(part) or self._missing(part) else part
            for part in now
        )
        return [part for part in chosen if part is not None]

    def _given(self, part: Part, guarded: bool) -> Part:
        """Makes a part what others get of it, and lets the next upload begin with what comes."""
        if part is self._before(part):
            return part
        evidence, fresh, weight = part.evidence, part.fresh, 0.0
        if fresh is not None:
            forgetting = self.detector.model.forgetting
            withheld = (self._withheld(part) if guarded else None) or []
            if withheld:
                less = summed(self.detector.model, fresh.weighed(withheld, forgetting))
                # Of a column that moved in these rows alone nothing is left, no rounding either.
                evidence, weight = (evidence - less).left_of(evidence), less.count
            fresh.begin(withheld, forgetting)
        return Part(part.number, part.learned, evidence, withheld=weight)

    def _withheld(self, part: Part) -> list[tuple[int, Array]] | None:
        """What others do not get of a part yet; None where that is not known any more."""
        fresh, forgetting = part.fresh, self.detector.model.forgetting
        return [] if fresh is None else fresh.withheld(forgetting)

    def _before(self, part: Part) -> Part | None:
        return None if self.published is None else self.published.get(part.number)

    def _unchanged(self, part: Part) -> bool:
        before = self._before(part)
        if before is None or before.learned != part.learned:
            return False
        if not before.withheld:
            return part.evidence == before.evidence
        return math.isclose(part.evidence.count, before.evidence.count + before.withheld)

    def _missing(self, part: Part) -> float:
        """The rows to come, at least, before a part may be given away that is not as it was."""
        covered = self._units_covered(part) and self._columns_covered(part)
        return self._to_come(part) or self._instead_of_held(part) or (0 if covered else 1)

    def _instead_of_held(self, part: Part) -> float:
        """The rows to come until there are enough without those that columns hold back."""
        fresh = part.fresh
        if fresh is None or not (withheld := self._withheld(part)):
            return 0
        new = {number for number, _ in withheld if number > 0}
        return max(self._to_come(part, len(new - fresh.kept)), 0)

    def _to_come(self, part: Part, held: int = 0) -> float:
        """The rows to come until there are enough, whatever they are; ``held`` do not count."""
        detector, basis = self.detector, self.detector.basis
        least, forgetting = least_new_rows(basis), detector.model.forgetting
        before = self._before(part)
        learned = 0 if before is None else before.learned
        weight = max(detector.increments.new_weight(part, learned) - held, 0.0)
        if self.published is None:
            weight = min(weight, part.evidence.count)
        missing = rows_until(least, weight, forgetting)
        if self.former:
            beyond = detector.increments.rows_after(part, 0) - self.former
            known = weight_of(max(beyond, 0), forgetting)
            missing = max(missing, max(-beyond, 0) + rows_until(least, known, forgetting))
        if part.fresh is not None and not part.fresh.known:
            # Those that came since then show which columns have few values.
            missing = max(missing, least - part.fresh.inputs)
        if basis.window > 1:
            missing = max(missing, least if part.fresh is None else part.fresh.missing)
        return missing

    def _held_up(self, part: Part) -> bool:
        """Whether columns with few values are what an upload waits for."""
        held = self._instead_of_held(part) > 0 or not self._columns_covered(part)
        return self._to_come(part) == 0 and held

    def _doubtful(self, part: Part) -> bool:
        """Whether there were enough rows since the last upload, had each one counted as new."""
        before, forgetting = self._before(part), self.detector.model.forgetting
        rows = self.detector.increments.rows_after(part, 0 if before is None else before.learned)
        least, most = least_new_rows(self.detector.basis), weight_of(rows, forgetting)
        return self._to_come(part) > 0 == rows_until(least, most, forgetting)

    def _units_covered(self, part: Part) -> bool:
        basis, fresh = self.detector.basis, part.fresh
        if basis.layer.activation != "relu" or self._unchanged(part):
            return True
        active = None
        if fresh is not None:
            withheld = self._withheld(part) or []
            active = fresh.active(fresh.weighed(withheld, self.detector.model.forgetting))
        rows = np.zeros(basis.layer.units) if active is None else active
        # Of rows that nobody followed, each unit may have been active in one.
        doubtful = fresh is None or not fresh.known
        counts = (rows > 0.0) | (part.evidence.U.diagonal() > 0.0 if doubtful else False)
        return units_covered(basis, rows[counts])

    def _columns_covered(self, part: Part) -> bool:
        """Says whether no column with few values shows rows that can't be held back."""
        fresh, before = part.fresh, self._before(part)
        if fresh is None or self._unchanged(part):
            return True
        if self._withheld(part) is None:
            return False
        if fresh.known or not isinstance(fresh.since, Moments):
            return True
        # Rows that nobody followed came, went, or both.
        given = None if before is None else before.evidence
        alone = before is None and not self.former
        still = fresh.still(self.detector.model.forgetting)
        return columns_covered(fresh.since, given, still, alone=alone)

    def take_back(self, published: Published | None, lead: int, former: int) -> None:
        """Lets what others may know be what it was before an offer, which nobody got.

        What was fresh then hid itself, and is no longer counted: what follows must do so as well.
        """
        self.published, self.lead, self.former = published, lead, former

    # Which of two is newer

    def depart(self) -> Departure:
        """Makes the word that this device leaves; what it offers afterwards joins it again."""
        departure = Departure(self.name, self.contribution().epoch + 1)
        self._lead_over(departure.epoch)
        return departure

    def recall(self, epoch: int, *, left: bool) -> None:
        """Takes note of what an exchange holds under this name: maybe what a former self gave.

        ``BadInput`` for an epoch that no number of rows explains.
        """
        if left and epoch == self.highest + 1:
            # Somebody took this device out: nothing was given away in between.
            self._lead_over(epoch)
        elif epoch > self.highest:
            self.outrank(epoch)

    def outrank(self, epoch: int) -> None:
        """Makes sure that whatever is offered from now on is newer than ``epoch``.

        If this state does not know of that one, a former self gave it away. ``BadInput`` for an
        epoch that no number of rows explains: who got past it would have no room to go on, even
        after it was taken out.
        """
        if epoch >= HIGHEST_USABLE_EPOCH // 2:
            raise BadInput(
                f"the exchange holds an entry of {self.name!r} that nothing can replace "
                f"(epoch {epoch}): take it out there ('elmgrove federation clear'), or give this "
                "device another name"
            )
        if epoch > self.highest:
            self._met(epoch)
        self._lead_over(epoch)

    def _met(self, epoch: int) -> None:
        """Takes note of a former self, which may have given away any of the rows up to now."""
        self.former = max(self.former, epoch)
        for part in self.detector.parts:
            if part.fresh is not None and part.fresh.few.any:
                part.fresh.doubt(part.evidence)

    @property
    def highest(self) -> int:
        """The last epoch that this state knows of."""
        return self.lead + self._rows_given

    @property
    def _rows_given(self) -> int:
        return 0 if self.published is None else self.published.learned

    def _lead_over(self, epoch: int) -> None:
        self.lead = max(self.lead, epoch + 1 - self._rows_given)
