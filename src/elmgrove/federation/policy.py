"""What others are to a device: they are asked about anomalous rows, or all are one model."""

from collections.abc import Sequence

from elmgrove.algebra import Evidence, Moments, agreed
from elmgrove.detector import Detector, Other
from elmgrove.federation.influence import bounded
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.merged import Merged
from elmgrove.federation.terms import Terms


def received_by(merges: bool, ledger: Ledger, merged: Merged | None) -> Sequence[Evidence]:
    """Gives what a model rests on beside its own rows: nothing, unless all are to be one model.

    Where each device is known by itself nobody set terms: none weighs more than is usual.
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


def consult(detector: Detector, merges: bool, ledger: Ledger, merged: Merged | None) -> None:
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
    detector.consult(others, loan_by(merges, ledger, merged))


def use(
    detector: Detector,
    merges: bool,
    ledger: Ledger,
    merged: Merged | None,
    numbers: tuple[int, ...] = (),
) -> None:
    """Applies to a detector what was received from others, in the place of what was before.

    ``numbers`` are those of the patterns that were given away, by which a sum is matched to them.
    """
    received = received_by(merges, ledger, merged)
    if received or detector.received is not None:
        matching = None if merged is None else merged.matching
        known = matching is not None and all(place < len(numbers) for place, _ in matching.groups)
        detector.rest_on(received, matching.numbered(numbers) if matching and known else None)
    consult(detector, merges, ledger, merged)
