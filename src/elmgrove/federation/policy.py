"""Policies: what others are to a device, and how its detector uses them."""

from collections.abc import Sequence

from elmgrove.algebra import Evidence, Moments, agreed
from elmgrove.detector import MERGED, Detector, Other
from elmgrove.errors import BadInput
from elmgrove.federation.influence import bounded
from elmgrove.federation.ledger import Ledger
from elmgrove.federation.merged import Merged
from elmgrove.federation.terms import Terms

#: The policy by which a row that is strange here is excused where others know it.
UNKNOWN = "unknown"
#: The policy by which others never excuse a row.
STRANGE = "strange"
#: All policies.
POLICIES = (UNKNOWN, STRANGE, MERGED)


def require_policy(policy: str) -> None:
    """Raises ``BadInput`` unless there is such a policy."""
    if policy not in POLICIES:
        raise BadInput(f"alarm must be one of {', '.join(POLICIES)}, not {policy!r}")


def received_by(policy: str, ledger: Ledger, merged: Merged | None) -> Sequence[Evidence]:
    """Gives what a model rests on beside its own rows: nothing, unless all are to be one model.

    Where each device is known by itself nobody set terms: none weighs more than is usual.
    """
    if policy != MERGED:
        return ()
    if merged is not None:
        return merged.received
    return [part for held in bounded(Terms(), ledger) for part in held.parts]


def loan_by(policy: str, ledger: Ledger, merged: Merged | None) -> Moments | None:
    """Gives what a model borrows: nothing where all are one model already."""
    if policy == MERGED:
        return None
    return ledger.loan if merged is None else agreed(merged.loans)


def consult(detector: Detector, policy: str, ledger: Ledger, merged: Merged | None) -> None:
    """Lets a detector ask those who say where strange begins, and borrow from all."""
    known = [(held.origin, held.parts, held.threshold) for held in ledger]
    if merged is not None:
        answers = zip(merged.labels, merged.parts, strict=False)
        known += [(str(label), (part,), label.threshold) for label, part in answers]
    others = [
        Other(name, parts, threshold)
        for name, parts, threshold in known
        if threshold is not None and policy != MERGED
    ]
    detector.consult(others, loan_by(policy, ledger, merged), excused=policy == UNKNOWN)


def use(
    detector: Detector,
    policy: str,
    ledger: Ledger,
    merged: Merged | None,
    numbers: tuple[int, ...] = (),
) -> None:
    """Lets these others be to a detector what the policy says, and no others any more.

    ``numbers`` are those of the patterns that were given away, by which a sum is matched to them.
    """
    received = received_by(policy, ledger, merged)
    if received or detector.received is not None:
        matching = None if merged is None else merged.matching
        known = matching is not None and all(place < len(numbers) for place, _ in matching.groups)
        detector.rest_on(received, matching.numbered(numbers) if matching and known else None)
    consult(detector, policy, ledger, merged)
