"""A member: a detector with a name, what it received from others, and what it gave away."""

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

from elmgrove.algebra import Basis, Evidence, Packed
from elmgrove.detector import STATE_FORMAT, Detector, pack_state, unpack_detector
from elmgrove.errors import BadInput, ElmgroveError
from elmgrove.federation.entries import (
    Contribution,
    Departure,
    Entry,
    require_epoch,
)
from elmgrove.federation.giving import Giver
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.member_state import (
    Published,
    pack_ledger,
    pack_merged,
    unpack_ledger,
    unpack_merged,
)
from elmgrove.federation.merged import Merged
from elmgrove.federation.policy import consult, loan_by, received_by, use
from elmgrove.storage import require_written_as, seal, unpacking, unseal


class Member(Giver):
    """A device of a federation: a detector with what it received and what it gave away.

    Its model is its own: it borrows from others how readings move together until it has seen enough
    itself, and a verdict's ``known`` names those for whom an anomalous row would have been normal.
    If it ``merges``, its model is its own evidence plus what it received (the papers' way).

    What it received is either the newest of each origin, or sums over the others (one, or those of
    groups), never both, since a sum may hold an origin's rows already. It gives away its own
    evidence only, so what goes round in circles is never counted twice.

    ``notes`` are for the program that keeps the member, and saved with it.
    """

    #: A state holds recent rows: a new file is for its owner's eyes only.
    private: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        detector: Detector,
        ledger: Ledger | None = None,
        merged: Merged | None = None,
        merges: bool = False,
    ) -> None:
        super().__init__(name, detector, merges)
        self.ledger = Ledger() if ledger is None else ledger
        self.merged = merged
        self.notes: dict[str, Any] = {}
        if self.ledger.get(name) is not None:
            raise BadInput(f"{name!r} can't have received from itself")
        if merged is not None and len(self.ledger):
            raise BadInput("a member receives from each device or uses one sum, not both")
        received = received_by(merges, self.ledger, merged)
        if detector.received is None and received:
            detector.rest_on(received)
        elif detector.received != (Evidence.sum(received) if received else None):
            raise BadInput("the detector uses evidence of others that the ledger does not hold")
        consult(detector, merges, self.ledger, merged)

    @property
    def alone(self) -> bool:
        """Whether nothing was received from others yet, nor given away."""
        return self.published is None and self.merged is None and not len(self.ledger)

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
        return ledger.join(entry) and self._use(ledger)

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
            self._use(ledger)
        return refused

    def rest_on(self, merged: Merged | None) -> None:
        """Lets sums over the others take the place of what was received; with None nothing.

        Of groups that are to be asked, those that no rows can have made are left out; a sum that is
        to be merged is refused.
        """
        if merged is not None:
            self.detector.basis.require(merged.parts[0].basis)
            merged = merged.usable()
            for part in merged.parts:
                part.require_admissible(f"a sum of {merged.federation!r}")
        self._use(Ledger(self.ledger.departures), merged)

    def forget(self, origin: str) -> bool:
        """Takes all that came from an origin out again; says whether there was anything."""
        ledger = Ledger(self.ledger.entries)
        return ledger.forget(origin) and self._use(ledger)

    def follow(self, *, merges: bool) -> None:
        """Merges what others know from now on, or asks them instead."""
        if merges != self.merges:
            # Of one sum nobody can be asked; the next sync fetches what is needed.
            self._use(Ledger(self.ledger.entries), None, merges)

    def _recognize(self, entry: Entry) -> None:
        mine = self.shared
        if mine is not None and entry.epoch == mine.epoch and entry != mine:
            # Another upload of as many rows: made by a state that was restored.
            self._met(entry.epoch)
            self.outrank(entry.epoch)
        else:
            self.recall(entry.epoch, left=isinstance(entry, Departure))

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

    def _use(
        self, ledger: Ledger, merged: Merged | None = None, merges: bool | None = None
    ) -> bool:
        merges = self.merges if merges is None else merges
        # The model first: if it refuses, the ledger stays as it was.
        given = () if self.published is None else self.published.parts
        use(self.detector, merges, ledger, merged, tuple(part.number for part in given))
        self.ledger, self.merged, self.merges = ledger, merged, merges
        return True

    # On disk

    def to_bytes(self) -> bytes:
        """Seals the full state in the file format of a device."""
        return seal(STATE_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        known, arrays = pack_state(self.name, self.detector)
        more, parts = pack_ledger(self.ledger)
        known |= more
        arrays |= parts
        if self.merged is not None:
            more, parts = pack_merged(self.merged)
            known |= more
            arrays |= parts
        if self.published is not None:
            more, parts = self.published.pack()
            known |= more
            arrays |= parts
        if self.merges:
            known["merges"] = True
        known |= {"lead": self.lead} if self.lead else {}
        known |= {"former": self.former} if self.former else {}
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
            merges = fields.get("merges", False) is True
            received = received_by(merges, ledger, merged)
            detector = unpack_detector(
                fields["detector"], arrays, received, loan_by(merges, ledger, merged)
            )
            made = cls(fields["name"], detector, ledger, merged, merges)
            made.published = Published.unpack(basis, fields, arrays)
            made.lead = fields.get("lead", 0)
            made.former = fields.get("former", 0)
            require_epoch(made.lead)
            require_epoch(made.former)
            made.notes = fields.get("notes", {})
            require_written_as(made._packed(), fields, arrays)
        return made
