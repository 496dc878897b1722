"""Giving: what a device tells others of itself, and the guard over what leaves it."""

import math

from elmgrove.algebra import Basis, numbers_in
from elmgrove.detector import MERGED, Detector, Part
from elmgrove.errors import BadInput
from elmgrove.federation.entries import (
    HIGHEST_USABLE_EPOCH,
    Contribution,
    Departure,
    require_origin,
)
from elmgrove.federation.member_state import Published
from elmgrove.federation.policy import require_policy


def least_new_rows(basis: Basis) -> int:
    """Counts the rows between two uploads below which the difference could give them away.

    The difference of two evidences shows as many numbers as an upload has: Ñ(Ñ + 1)/2 of U and
    Ñ·n of V, or those of C, s and e (the centre follows from them); k rows of as many columns as a
    row has are k times that many unknowns, however wide a window is. From k = numbers / columns
    rows on there are at least as many unknowns as numbers. That is counting, not a proof of
    privacy: what many rows have in common can be seen in any upload.
    """
    return math.ceil(numbers_in(basis) / basis.layer.inputs)


class Giver:
    """A device as others know it: its name, what it gave away, and what it may give away now.

    ``offer`` keeps the upload guard: what is given away covers enough new rows that they can't be
    computed from the difference. That holds for what was taken out again, too: it leaves with the
    next upload, which has as many rows as any other that no upload had before. Counted like new
    ones, rows that were taken out would guard nothing: of a hundred that came and ninety-nine that
    went, two uploads show the one. Nor do rows count that may have been learned before: of a
    hundred that went and ninety-nine of them that came again, two uploads show the one. Which
    those are is told by their times: a file that has none and is learned twice counts twice.
    """

    def __init__(self, name: str, detector: Detector, policy: str) -> None:
        require_origin(name)
        require_policy(policy)
        self.name = name
        self.detector = detector
        self.policy = policy
        self.published: Published | None = None
        #: Added to the rows learned, it makes the epoch.
        self.lead = 0

    def contribution(self) -> Contribution:
        """Gathers what this device learned itself up to now; ``offer`` gives what may leave it."""
        return self._contribution(self._now(self.detector.parts))

    def _now(self, parts: tuple[Part, ...]) -> Published:
        # That of one model of everybody would be about others' rows as well.
        threshold = math.inf if self.policy == MERGED else self.detector.threshold
        return Published(self.detector.learned, parts, threshold if threshold < math.inf else None)

    def _contribution(self, given: Published) -> Contribution:
        evidences = tuple(part.evidence.about_mean() for part in given.parts)
        return Contribution(self.name, self.lead + given.learned, evidences, given.threshold)

    @property
    def shared(self) -> Contribution | None:
        """What others may know of this device: what it last offered."""
        return None if self.published is None else self._contribution(self.published)

    def offer(self, *, guarded: bool = True) -> Contribution | None:
        """Decides what to give away now: all that was learned if the guard lets it, else as before.

        None if nothing was ever given away and the guard does not let it. Save the member
        before sending what this returns: a device that forgot what it sent can't keep the guard.
        """
        parts, before = self._offerable(guarded), self.published
        if parts and (before is None or parts != before.parts):
            self.published = self._now(parts)
            if before is not None and self.published.learned <= before.learned:
                # Rows were taken out and none came: newer all the same.
                self.lead += before.learned + 1 - self.published.learned
        return self.shared

    def rows_missing(self, *, guarded: bool = True) -> int:
        """Counts the rows that must still be learned before something new can be offered."""
        if not guarded:
            return 0
        first = self.detector.rows_undecided
        new = [part for part in self.detector.parts if part != self._before(part)]
        if not new and self.published is not None:
            return 0
        least = least_new_rows(self.detector.basis)
        return max([first, min(map(self._missing, new), default=least)])

    def _offerable(self, guarded: bool) -> tuple[Part, ...]:
        """Chooses of each pattern what the guard lets out: as it is, or as it was last given away.

        Each upload of a pattern has enough rows that none before it had, and no two patterns share
        a row: so each difference of uploads, in whatever way they are combined, is over at least
        those of the newest among them. Not before it is decided how many patterns there are: then
        other ones are made, of the same rows.
        """
        now = self.detector.parts
        if not guarded:
            return now
        if self.detector.rows_undecided:
            return ()
        chosen = (part if self._missing(part) == 0 else self._before(part) for part in now)
        return tuple(part for part in chosen if part is not None)

    def _before(self, part: Part) -> Part | None:
        return None if self.published is None else self.published.get(part.number)

    def _missing(self, part: Part) -> int:
        if part == self._before(part):
            return 0
        before, increments = self._before(part), self.detector.increments
        if self.published is None:
            new = increments.rows_after(part, 0)
        else:
            new = increments.new_rows(part, 0 if before is None else before.learned)
        return max(least_new_rows(self.detector.basis) - new, 0)

    def depart(self) -> Departure:
        """Makes the word that this device leaves; what it offers afterwards joins it again."""
        departure = Departure(self.name, self.contribution().epoch + 1)
        self._lead_over(departure.epoch)
        return departure

    def outrank(self, epoch: int) -> None:
        """Makes sure that whatever is offered from now on is newer than ``epoch``.

        ``BadInput`` for an epoch that no number of rows explains: who got past it would have no
        room to go on, even after it was taken out.
        """
        if epoch >= HIGHEST_USABLE_EPOCH // 2:
            raise BadInput(
                f"the exchange holds an entry of {self.name!r} that nothing can replace "
                f"(epoch {epoch}): take it out there ('elmgrove federation clear'), or give this "
                "device another name"
            )
        self._lead_over(epoch)

    def _lead_over(self, epoch: int) -> None:
        before = 0 if self.published is None else self.published.learned
        self.lead = max(self.lead, epoch + 1 - before)
