"""A member: a detector with a name, what it received from others, and what it gave away."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance, agreed, rows_lent
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import (
    Moments,
    Packed,
    mixing,
    numbers_in,
    pack_part,
    pack_parts,
    unpack_part,
    unpack_parts,
)
from elmgrove.algebra.oselm import weight_of
from elmgrove.algebra.rows import Array
from elmgrove.algebra.unsent import ROWS_ALIKE, inputs_held_back
from elmgrove.detector.decision import WATCHING
from elmgrove.detector.detector import Detector
from elmgrove.detector.gaussian import Gaussian, SingleModel, summed
from elmgrove.detector.model import Part
from elmgrove.detector.peers import Other
from elmgrove.detector.state import STATE_FORMAT, pack_state, unpack_detector
from elmgrove.errors import BadInput, ElmgroveError, SingularSystem
from elmgrove.federation.contribution import (
    HIGHEST_USABLE_EPOCH,
    Contribution,
    Departure,
    Entry,
    Ledger,
    require_epoch,
    require_origin,
    require_threshold,
)
from elmgrove.federation.merged import Merged, pack_answers, unpack_answers
from elmgrove.federation.policy import Terms
from elmgrove.federation.sums import bounded
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal


def least_new_rows(basis: Basis) -> float:
    """Counts the rows between two uploads below which the difference could give them away.

    The difference of two evidences shows as many numbers as an upload has: Ñ(Ñ + 1)/2 of U and
    Ñ·n of V, or those of C, s and e (the centre follows from them); k rows of as many columns as a
    row has are k times that many unknowns, however wide a window is. From k = numbers / columns
    rows on there are at least as many unknowns as numbers. With windows, so many must have come
    that enough of them can be held back. Units of relu are exactly 0 in many rows, so that what one
    row activates can be read off the sums: there no number is enough. That is counting, not a proof
    of privacy: what many rows have in common can be seen in any upload.
    """
    if basis.layer.activation == "relu":
        return math.inf
    counted = math.ceil(numbers_in(basis) / basis.layer.inputs)
    return max(counted, inputs_held_back(basis) * basis.window)


def rows_until(least: float, weight: float, forgetting: float) -> float:
    """Counts the rows to come until all new ones weigh enough; infinite if they never will.

    ``weight`` is what those weigh that have come. Rows that are forgotten hide others less: so
    many of weight w hide each other as well as Σw / max w equal ones do, for the newest of them,
    which weighs the most, has no larger share of the difference than one of so many has. With
    forgetting φ that is 1 + φ + φ² + …, and never more than 1 / (1 − φ).
    """
    if weight >= least * (1.0 - 1e-12):
        return 0
    if least == math.inf:
        return math.inf
    if forgetting == 1.0:
        return math.ceil(least - weight - 1e-9)
    most = 1.0 / (1.0 - forgetting)
    if least >= most:
        return math.inf
    # φᵐ weight + (1 − φᵐ) most ≥ least
    return max(math.ceil(math.log((most - least) / (most - weight), forgetting) - 1e-9), 1)


def least_forgetting(basis: Basis) -> float:
    """Finds a forgetting, rounded up, with which new rows can weigh enough."""
    least = least_new_rows(basis)
    unit = 10.0 ** -(len(str(least)) + 1)
    return math.ceil((1.0 - 1.0 / (least + 1)) / unit) * unit


def columns_covered(
    known: Moments, given: Evidence | None, still: tuple[Array, Array, Array], *, alone: bool
) -> bool:
    """Says whether sums over rows that nobody followed show nothing of few of them by a column.

    ``still`` has what columns with few values are not moved in by the rows that came since then
    (``FewValues.still``); ``given`` is what was given away before. What f singles out is Σ f(x) x:
    that must be as it was given away. Where rows are ``alone``, with none given away before, one
    column may differ if so many rows must have made it that they hide each other: m rows of any
    values have (Σ f)² ≤ m Σ f².
    """
    places, usual, combinations = still
    centre = np.array(known.centre)
    centre[places] = usual
    now = known.about(centre)
    before = now.weighted(0.0) if given is None else now.aligned(given)
    A = mixing(known.basis)
    size = np.sqrt(np.maximum(known.e, 0.0) + known.count * np.square(centre - known.centre))
    size += np.sqrt(known.count) * 1e-9
    mixed = size if A is None else size @ np.abs(A)
    C, s = now.C - before.C, now.s - before.s
    first = np.column_stack([s if A is None else s @ A, C[:, places]])
    for f in combinations:
        rounding = 1e-9 * float(np.abs(f) @ np.append(np.sqrt(known.count), size[places]))
        if (np.abs(first @ f) <= rounding * mixed).all():
            continue
        (moved,) = single if len(single := np.flatnonzero(f)) == 1 else (0,)
        if not alone or not moved:
            return False
        place = places[moved - 1]
        if now.s[place] ** 2 < ROWS_ALIKE * now.e[place] * (1.0 - 1e-9):
            return False
    return True


Fields = Mapping[str, Any]
Arrays = Mapping[str, Array]


def pack_ledger(ledger: Ledger) -> Packed:
    """Packs contributions by number, and departures if there are any."""
    received, arrays = list[dict[str, Any]](), dict[str, Array]()
    for index, held in enumerate(ledger):
        known, parts = _pack(f"heard.{index}", held.parts, apart=len(held.parts) > 1)
        known |= {} if held.threshold is None else {"threshold": held.threshold}
        received.append({"origin": held.origin, "epoch": held.epoch, **known})
        arrays |= parts
    left = [[entry.origin, entry.epoch] for entry in ledger.departures]
    return {"heard": received} | ({"left": left} if left else {}), arrays


def unpack_ledger(basis: Basis, fields: Fields, arrays: Arrays) -> Ledger:
    """Makes a ledger of what ``pack_ledger`` gave."""
    ledger = Ledger(Departure(*entry) for entry in fields.get("left", ()))
    for index, entry in enumerate(fields["heard"]):
        parts = _unpack(basis, f"heard.{index}", entry, arrays)
        ledger.join(Contribution(entry["origin"], entry["epoch"], parts, entry.get("threshold")))
    return ledger


def pack_merged(merged: Merged) -> Packed:
    """Packs a sum over others, without the basis, which the detector has."""
    numbers, arrays = _pack("merged", merged.parts, apart=merged.apart)
    known = {
        "federation": merged.federation,
        "revision": merged.revision,
        "devices": merged.devices,
    }
    more, lent = pack_answers(merged)
    return {"merged": known | more | numbers}, arrays | lent


def unpack_merged(basis: Basis, fields: Fields, arrays: Arrays) -> Merged | None:
    """Makes a sum of what ``pack_merged`` gave; None where there was none."""
    known = fields.get("merged")
    if known is None:
        return None
    return Merged(
        known["federation"],
        known["revision"],
        known["devices"],
        _unpack(basis, "merged", known, arrays),
        apart="kinds" in known,
        **unpack_answers(basis, known, arrays),
    )


@dataclass(frozen=True)
class Published:
    """What a device last gave away, pattern by pattern, and how many rows it had learned then.

    ``threshold`` is where anomalous began then; None if it did not watch, or had a question open.
    """

    learned: int
    parts: tuple[Part, ...]
    threshold: float | None = None

    def get(self, number: int) -> Part | None:
        """Finds what was given away of a pattern."""
        return next((part for part in self.parts if part.number == number), None)

    def pack(self) -> Packed:
        """Packs one part as it is, several by their numbers."""
        stated = {} if self.threshold is None else {"threshold": self.threshold}
        if [(part.number, part.learned) for part in self.parts] == [(0, self.learned)]:
            (part,) = self.parts
            numbers, arrays = pack_part("published", part.evidence)
            known = {"learned": self.learned, **stated, **_held_back(part), **numbers}
            return {"published": known}, arrays
        fields, arrays = pack_parts("published", [part.evidence for part in self.parts])
        parts = [
            {"number": part.number, "learned": part.learned, **_held_back(part), **numbers}
            for part, numbers in zip(self.parts, fields, strict=True)
        ]
        return {"published": {"learned": self.learned, **stated, "parts": parts}}, arrays

    @classmethod
    def unpack(cls, basis: Basis, fields: Fields, arrays: Arrays) -> "Published | None":
        """Reads what ``pack`` gave; None where nothing was given away yet."""
        published = fields.get("published")
        if published is None:
            return None
        learned, known = published["learned"], published.get("parts")
        threshold = published.get("threshold")
        require_epoch(learned)
        require_threshold(threshold)
        if known is None:
            evidence = unpack_part(basis, "published", published, arrays)
            return cls(learned, (_part(0, published, evidence),), threshold)
        evidences = unpack_parts(basis, "published", known, arrays)
        parts = (
            _part(one["number"], one, evidence)
            for one, evidence in zip(known, evidences, strict=True)
        )
        return cls(learned, tuple(parts), threshold)


def _held_back(part: Part) -> dict[str, float]:
    return {"withheld": part.held_back} if part.held_back else {}


def _part(number: int, fields: Fields, evidence: Evidence) -> Part:
    return Part(number, fields["learned"], evidence, held_back=float(fields.get("withheld", 0.0)))


def _pack(prefix: str, parts: Sequence[Evidence], *, apart: bool) -> Packed:
    """Packs one evidence as it is, and several that are apart under the file's word, kinds."""
    if not apart:
        return pack_part(prefix, parts[0])
    fields, arrays = pack_parts(prefix, parts)
    return {"kinds": fields}, arrays


def _unpack(basis: Basis, prefix: str, fields: Fields, arrays: Arrays) -> tuple[Evidence, ...]:
    if "kinds" not in fields:
        return (unpack_part(basis, prefix, fields, arrays),)
    return unpack_parts(basis, prefix, fields["kinds"], arrays)


def received_by(merges: bool, ledger: Ledger, merged: Merged | None) -> Sequence[Evidence]:
    """Gives what a model rests on beside its own rows: nothing, unless all are to be one model.

    Where each device is known by itself nobody set terms: each counts as it is usual.
    """
    if not merges:
        return ()
    if merged is not None:
        return merged.received
    return [part for held in bounded(Terms(), ledger) for part in held.parts]


def loan_by(merges: bool, ledger: Ledger, merged: Merged | None) -> Moments | None:
    """Gives what a model borrows: nothing where all are one model already."""
    if merges:
        return None
    return ledger.loan if merged is None else agreed(merged.loans)


def set_peers(detector: Detector, merges: bool, ledger: Ledger, merged: Merged | None) -> None:
    """Lets a detector ask those who say where anomalous begins, and borrow from all."""
    known = [(held.origin, held.parts, held.threshold) for held in ledger]
    if merged is not None:
        answers = zip(merged.labels, merged.parts, strict=False)
        known += [(str(label), (part,), label.threshold) for label, part in answers]
    others = [
        Other(name, parts, threshold)
        for name, parts, threshold in known
        if threshold is not None and not merges
    ]
    detector.set_peers(others, loan_by(merges, ledger, merged))


class Member:
    """A device of a federation: a detector with what it received and what it gave away.

    Its model is its own: it borrows from others how readings move together until it has seen enough
    itself, and a verdict's ``known`` names those for whom an anomalous row would have been normal.
    If it ``merges``, its model is its own evidence plus what it received (the papers' way).

    What it received is either the newest of each origin, or sums over the others (one, or those of
    groups), never both, since a sum may hold an origin's rows already. It gives away its own
    evidence only, so what goes round in circles is never counted twice.

    ``notes`` are for the program that keeps the member, and saved with it.

    ``offer`` keeps the upload guard: what is given away covers enough new rows that they can't be
    computed from the difference. That holds for what was taken out again, too: it leaves with the
    next upload, which has as many rows as any other that no upload had before. Counted like new
    ones, rows that were taken out would guard nothing: of a hundred that came and ninety-nine that
    went, two uploads show the one. Nor do rows count that may have been learned before: of a
    hundred that went and ninety-nine of them that came again, two uploads show the one. Which
    those are is told by their times: a file that has none and is learned twice counts twice.

    Rows that are forgotten count by their weight (``rows_until``). Of windows, some are held back
    (``inputs_held_back``), and rows that columns with few values single out (``FewValues``). Where
    a former self gave something away that this state does not know of, since it was lost or
    restored, the rows may be the same: so many count for nothing as that one can have had.
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
        require_origin(name)
        self.name = name
        self.detector = detector
        self.merges = merges
        self.ledger = Ledger() if ledger is None else ledger
        self.merged = merged
        self.published: Published | None = None
        #: Added to the rows learned, it makes the epoch.
        self.lead = 0
        #: The epoch of what a former self gave away, and so the most rows it can have had; or 0.
        self.former = 0
        self.notes: dict[str, Any] = {}
        if self.ledger.get(name) is not None:
            raise BadInput(f"{name!r} can't have received from itself")
        if merged is not None and len(self.ledger):
            raise BadInput("a member receives from each device or uses one sum, not both")
        received = received_by(merges, self.ledger, merged)
        if detector.received is None and received:
            detector.set_prior(received)
        elif detector.received != (Evidence.sum(received) if received else None):
            raise BadInput("the detector uses evidence of others that the ledger does not hold")
        set_peers(detector, merges, self.ledger, merged)

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

    def set_prior(self, merged: Merged | None) -> None:
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
        received = received_by(merges, ledger, merged)
        if received or self.detector.received is not None:
            self.detector.set_prior(received)
        set_peers(self.detector, merges, ledger, merged)
        self.ledger, self.merged, self.merges = ledger, merged, merges
        return True

    # Giving away

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
        if self.merges or detector.drift.found or detector.state != WATCHING:
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
    def has_unsent(self) -> bool:
        """Whether there is something to send, as far as the guard lets it."""
        return self.published is not None or self.rows_missing() == 0

    def blocked_reason(self, *, guarded: bool = True) -> str | None:
        """Says why nothing new can be offered where learning alone may not help; else None."""
        missing, detector = self.rows_missing(guarded=guarded), self.detector
        if missing == math.inf and detector.basis.layer.activation == "relu":
            return (
                "a unit of the relu layer may be active in so few rows that these could be "
                "computed from what is sent: use another activation, or switch the guard off"
            )
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
            held_back = (self._held_back(part) if guarded else None) or []
            if held_back:
                less = summed(self.detector.model, fresh.weighed(held_back, forgetting))
                # Of a column that moved in these rows alone nothing is left, no rounding either.
                evidence, weight = (evidence - less).left_of(evidence), less.count
            fresh.begin(held_back, forgetting)
        return Part(part.number, part.learned, evidence, held_back=weight)

    def _held_back(self, part: Part) -> list[tuple[int, Array]] | None:
        """What others do not get of a part yet; None where that is not known any more."""
        fresh, forgetting = part.fresh, self.detector.model.forgetting
        return [] if fresh is None else fresh.held_back(forgetting)

    def _before(self, part: Part) -> Part | None:
        return None if self.published is None else self.published.get(part.number)

    def _unchanged(self, part: Part) -> bool:
        before = self._before(part)
        if before is None or before.learned != part.learned:
            return False
        if not before.held_back:
            return part.evidence == before.evidence
        return math.isclose(part.evidence.count, before.evidence.count + before.held_back)

    def _missing(self, part: Part) -> float:
        """The rows to come, at least, before a part may be given away that is not as it was."""
        covered = self._columns_covered(part)
        return self._to_come(part) or self._instead_of_held(part) or (0 if covered else 1)

    def _instead_of_held(self, part: Part) -> float:
        """The rows to come until there are enough without those that columns hold back."""
        fresh = part.fresh
        if fresh is None or not (held_back := self._held_back(part)):
            return 0
        new = {number for number, _ in held_back if number > 0}
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

    def _columns_covered(self, part: Part) -> bool:
        """Says whether no column with few values shows rows that can't be held back."""
        fresh, before = part.fresh, self._before(part)
        if fresh is None or self._unchanged(part):
            return True
        if self._held_back(part) is None:
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
                f"(epoch {epoch}): take it out there ('elmgrove federation revoke --keep-key'), or "
                "give this device another name"
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


# Less than this many rows' worth is nothing that anybody would notice.
_LEAST = 0.5


@dataclass(frozen=True)
class Borrowing:
    """So many rows' worth, from so many devices, and how wide one's normal is by that.

    ``width`` is how many times as wide the Gaussian is along its own axes, in the mean, as it would
    be alone: below 1, others have shown that readings move together, and what breaks that is
    stranger than a few rows of one's own could show. Of several patterns, that with the most.
    """

    rows: float
    lenders: int
    width: float

    def __str__(self) -> str:
        if self.rows < _LEAST:
            return "nothing" + (": it has seen enough itself" if self.lenders else "")
        rows = "1 row's" if round(self.rows) == 1 else f"{self.rows:.0f} rows'"
        many = f"{self.lenders} device{'s' * (self.lenders != 1)}"
        changed = f"its normal is {self.width:.2f} times as wide by that"
        return f"{rows} worth from {many}; {changed}"


def borrowing(
    parts: Sequence[Evidence], loan: Callable[[], Moments | None], lenders: int
) -> Borrowing:
    """Finds what a device that learned these parts borrows of a loan, which only few rows need."""
    learned = [part for part in parts if isinstance(part, Moments)]
    least = min(learned, key=lambda part: part.count, default=None)
    if least is None or not lenders:
        return Borrowing(0.0, 0, 1.0)
    rows = rows_lent(least.count, least.basis.inputs)
    lent = loan() if rows >= _LEAST else None
    if lent is None:
        return Borrowing(0.0, lenders, 1.0)
    # The mean of log σ² is twice that of log σ.
    wider = Distance(least, loan=lent).width - Distance(least).width
    return Borrowing(rows, lenders, math.exp(wider / 2.0))


def borrowed_by(member: Member) -> Borrowing:
    """Finds what a member borrows now."""
    loan, told = member.detector.loan, 0 if member.merged is None else member.merged.devices
    lenders = 0 if loan is None else len(member.ledger) or told
    return borrowing([part.evidence for part in member.detector.parts], lambda: loan, lenders)


def share_of_others(member: Member, borrowed: float) -> float:
    """Finds how much of what decides about a row comes from others, from 0 to 1, by rows.

    Of one model of everybody that is the others' part of its rows; of a device that has
    ``borrowed`` so many rows' worth, their part in the pattern that borrows most.
    """
    detector = member.detector
    own, received = detector.evidence.count, detector.received
    others = 0.0 if received is None else max(received.count, 0.0)
    if not others:
        others = borrowed
        own = min((part.evidence.count for part in detector.parts), default=0.0)
    return others / (others + max(own, 0.0)) if others else 0.0


def own_score(member: Member) -> float | None:
    """Computes how anomalous a device's own rows are to its model, in the mean, without a row.

    By distance they lie so many times as far from it as rows that are typical of it: 1 where it is
    made of them alone, about 1 with what it borrows, more where one model of everybody is not like
    them. By loss it is their mean squared error. None where there are no rows, or no number.
    """
    models = [model for model in member.detector.model.models if model.evidence.count > 0.0]
    try:
        # What is beyond range is no number below.
        with np.errstate(over="ignore", invalid="ignore"):
            found = [(_own_score(member, model), model.evidence.count) for model in models]
    except SingularSystem:
        return None
    rows = sum(count for _, count in found)
    mean = sum(score * count for score, count in found) / rows if rows else math.nan
    return mean if math.isfinite(mean) else None


def _own_score(member: Member, model: SingleModel) -> float:
    own, total, basis = model.evidence, model.total, model.basis
    if not isinstance(model, Gaussian):
        error = own.error_of(total.solve(model.ridge))
        return max(error, 0.0) / (own.count * basis.outputs)
    lends = member.detector.loan is not None and rows_lent(own.count, basis.inputs) >= _LEAST
    if total.count == own.count and not lends:
        return 1.0
    return model.distance.mean_score(Distance(model.evidence))
