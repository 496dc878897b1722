"""A member: a detector with a name, what it received from others, and what it gave away."""

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

from elmgrove.algebra import Basis, Evidence, Packed, numbers_in
from elmgrove.detector import Detector, Part, pack_detector, unpack_detector
from elmgrove.errors import BadInput, ElmgroveError
from elmgrove.federation.entries import (
    HIGHEST_USABLE_EPOCH,
    Contribution,
    Departure,
    Entry,
    require_epoch,
    require_origin,
)
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.member_state import (
    Published,
    pack_ledger,
    pack_merged,
    unpack_ledger,
    unpack_merged,
)
from elmgrove.federation.merged import Merged
from elmgrove.federation.sealed import require_written_as, seal, unpacking, unseal

#: The format of a member's state.
STATE_FORMAT = "elmgrove.state"


def least_new_rows(basis: Basis) -> int:
    """Counts the rows between two uploads below which the difference could give them away.

    The difference of two evidences shows as many numbers as an upload has: Ñ(Ñ + 1)/2 of U and
    Ñ·n of V, or those of C, s and e (the centre follows from them); k rows of as many columns as a
    row has are k times that many unknowns, however wide a window is. From k = numbers / columns
    rows on there are at least as many unknowns as numbers. That is counting, not a proof of
    privacy: what many rows have in common can be seen in any upload.
    """
    return math.ceil(numbers_in(basis) / basis.layer.inputs)


class Member:
    """A device of a federation: a detector with what it received and what it gave away.

    Its model is always its own evidence plus what it received: either the newest of each origin,
    or one sum over the others, never both, since the sum may hold an origin's rows already. It
    gives away its own evidence only, so what goes round in circles is never counted twice.

    ``offer`` keeps the upload guard: what is given away covers enough new rows that they can't be
    computed from the difference. ``notes`` are for the program that keeps the member, and saved
    with it.
    """

    #: A state holds recent rows: a new file is for its owner's eyes only.
    private: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        detector: Detector,
        ledger: Ledger | None = None,
        merged: Merged | None = None,
    ) -> None:
        require_origin(name)
        self.name = name
        self.detector = detector
        self.ledger = Ledger() if ledger is None else ledger
        self.merged = merged
        self.published: Published | None = None
        #: Added to the rows learned, it makes the epoch.
        self.lead = 0
        self.notes: dict[str, Any] = {}
        if self.ledger.get(name) is not None:
            raise BadInput(f"{name!r} can't have received from itself")
        if merged is not None and len(self.ledger):
            raise BadInput("a member receives from each device or uses one sum, not both")
        received = _received(self.ledger, merged)
        if detector.received is None and received:
            detector.rest_on(received)
        elif detector.received != (Evidence.sum(received) if received else None):
            raise BadInput("the detector uses evidence of others that the ledger does not hold")

    # Giving

    def contribution(self) -> Contribution:
        """Gathers what this device learned itself up to now; ``offer`` gives what may leave it."""
        return self._contribution(self.detector.learned, self.detector.parts)

    def _contribution(self, learned: int, parts: tuple[Part, ...]) -> Contribution:
        evidences = tuple(part.evidence.about_mean() for part in parts)
        return Contribution(self.name, self.lead + learned, evidences)

    @property
    def shared(self) -> Contribution | None:
        """What others may know of this device: what it last offered."""
        if self.published is None:
            return None
        return self._contribution(self.published.learned, self.published.parts)

    def offer(self, *, guarded: bool = True) -> Contribution | None:
        """Decides what to give away now: all that was learned if the guard lets it, else as before.

        None if nothing was ever given away and the guard does not let it. Save the member
        before sending what this returns: a device that forgot what it sent can't keep the guard.
        """
        parts = self._offerable(guarded)
        if parts and (self.published is None or parts != self.published.parts):
            self.published = Published(self.detector.learned, parts)
        return self.shared

    def rows_missing(self, *, guarded: bool = True) -> int:
        """Counts the rows that must still be learned before something new can be offered."""
        if not guarded:
            return 0
        first = self.detector.rows_undecided
        new = [part for part in self.detector.parts if part.learned != self._given(part)]
        if not new and self.published is not None:
            return 0
        least = least_new_rows(self.detector.basis)
        return max([first, min(map(self._missing, new), default=least)])

    def _offerable(self, guarded: bool) -> tuple[Part, ...]:
        """Chooses of each pattern what the guard lets out: as it is, or as it was last given away.

        Under its number a pattern only ever grows, and no two share a row: so each difference of
        two uploads, in whatever way they are combined, is over enough rows. Not before it is
        decided how many patterns there are: then other ones are made, of the same rows.
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

    def _given(self, part: Part) -> int:
        before = self._before(part)
        return 0 if before is None else before.learned

    def _missing(self, part: Part) -> int:
        new = part.learned - self._given(part)
        known = self._before(part) is not None and new == 0
        return 0 if known else max(least_new_rows(self.detector.basis) - new, 0)

    def depart(self) -> Departure:
        """Makes the word that this device leaves; what it offers afterwards joins it again."""
        departure = Departure(self.name, self.contribution().epoch + 1)
        self.outrank(departure.epoch)
        return departure

    def outrank(self, epoch: int) -> None:
        """Makes sure that whatever is offered from now on is newer than ``epoch``.

        ``BadInput`` for an epoch that no number of rows explains and nothing could get past.
        """
        if epoch >= HIGHEST_USABLE_EPOCH:
            raise BadInput(
                f"the exchange holds an entry of {self.name!r} that nothing can replace "
                f"(epoch {epoch}): take it out there, or give this device another name"
            )
        before = 0 if self.published is None else self.published.learned
        self.lead = max(self.lead, epoch + 1 - before)

    # Receiving

    def receive(self, entry: Entry) -> bool:
        """Takes an entry in, if it is newer than the last of that origin; says whether.

        A mismatch, evidence that is not admissible and one's own name are errors that change
        nothing.
        """
        if entry.origin == self.name:
            raise BadInput(f"{self.name!r} can't merge its own evidence: it has learned it already")
        self._require_separate()
        self._require_fitting(entry)
        ledger = Ledger(self.ledger.entries)
        return ledger.join(entry) and self._rest_on(ledger)

    def receive_all(
        self, entries: Iterable[Entry], only: Collection[str] | None = None
    ) -> list[ElmgroveError]:
        """Takes in all that an exchange holds, in one step; what does not fit is left out.

        An entry of one's own name that is not what was last offered shows that the world knows
        another version of this device: the next offer will replace it. With ``only``, the model
        rests on these origins afterwards and no others. Gives the reasons for what was left out.
        """
        self._require_separate()
        ledger, refused = Ledger(self.ledger.entries), list[ElmgroveError]()
        for entry in entries:
            try:
                if entry.origin == self.name:
                    self._recognize(entry)
                else:
                    self._require_fitting(entry)
                    ledger.join(entry)
            except ElmgroveError as error:
                refused.append(error)
        for held in list(ledger):
            if only is not None and held.origin not in only:
                ledger.forget(held.origin)
        if ledger.entries != self.ledger.entries:
            self._rest_on(ledger)
        return refused

    def rest_on(self, merged: Merged | None) -> None:
        """Lets one sum over the others take the place of what was received; with None nothing."""
        if merged is not None:
            self.detector.basis.require(merged.evidence.basis)
            merged.evidence.require_admissible(f"the sum of {merged.federation!r}")
        ledger = Ledger(self.ledger.departures)
        self.detector.rest_on(_received(ledger, merged))
        self.ledger, self.merged = ledger, merged

    def forget(self, origin: str) -> bool:
        """Takes all that came from an origin out again; says whether there was anything."""
        ledger = Ledger(self.ledger.entries)
        return ledger.forget(origin) and self._rest_on(ledger)

    def _recognize(self, entry: Entry) -> None:
        if entry != self.shared:
            self.outrank(entry.epoch)

    def _require_separate(self) -> None:
        if self.merged is not None:
            raise BadInput(
                f"{self.name!r} uses the sum of {self.merged.federation!r}, which may hold the "
                "same rows; forget that one first"
            )

    def _require_fitting(self, entry: Entry) -> None:
        if isinstance(entry, Contribution):
            self.detector.basis.require(entry.basis)
            for part in entry.parts:
                part.require_admissible(f"the evidence of {entry.origin!r}")

    def _rest_on(self, ledger: Ledger) -> bool:
        # The model first: if it refuses, the ledger stays as it was.
        self.detector.rest_on(ledger.parts)
        self.ledger = ledger
        return True

    # On disk

    def to_bytes(self) -> bytes:
        """Seals the full state in the file format of a device."""
        return seal(STATE_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields, arrays = pack_detector(self.detector)
        known, parts = pack_ledger(self.ledger)
        known |= {"name": self.name, "detector": fields}
        arrays |= parts
        if self.merged is not None:
            more, parts = pack_merged(self.merged)
            known |= more
            arrays |= parts
        if self.published is not None:
            more, parts = self.published.pack()
            known |= more
            arrays |= parts
        if self.lead:
            known["lead"] = self.lead
        if self.notes:
            known["notes"] = self.notes
        return known, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Member":
        """Reads what ``to_bytes`` wrote; ``BadFile`` for anything else, never half a model."""
        fields, arrays = unseal(STATE_FORMAT, blob)
        with unpacking("a state"):
            basis = Basis.from_fields(fields["detector"]["basis"])
            ledger = unpack_ledger(basis, fields, arrays)
            merged = unpack_merged(basis, fields, arrays)
            detector = unpack_detector(fields["detector"], arrays, _received(ledger, merged))
            made = cls(fields["name"], detector, ledger, merged)
            made.published = Published.unpack(basis, fields, arrays)
            made.lead = fields.get("lead", 0)
            require_epoch(made.lead)
            made.notes = fields.get("notes", {})
            require_written_as(made._packed(), fields, arrays)
        return made


def _received(ledger: Ledger, merged: Merged | None) -> Sequence[Evidence]:
    """What a model rests on beside its own rows."""
    return ledger.parts if merged is None else merged.received
