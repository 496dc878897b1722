"""Limits: how many bytes an honest device and an honest exchange tell each other at the most."""

import json

from elmgrove.algebra import numbers_in
from elmgrove.detector import MOST_PARTS
from elmgrove.errors import BadInput
from elmgrove.federation.charter import Charter
from elmgrove.federation.others import MOST_BYTES, SHARES

# The most bytes of a layer that a device would make for an exchange: 5,000 units at 5,000 inputs.
_LARGEST = 200_000_000


def content_limit(charter: Charter, patterns: int = MOST_PARTS) -> int:
    """Gives the most bytes that an honest contribution has: numbers, basis, and some to spare.

    The sums that come back to a device have no more: there is one of them, or one for each of its
    patterns.
    """
    # Moments may have a centre, of as many numbers as an input.
    centre = charter.basis.inputs if charter.basis.score == "distance" else 0
    numbers = 8 * (numbers_in(charter.basis) + centre)
    # The basis is JSON inside JSON: quotation marks and what is not ASCII take more room there.
    basis = 2 * len(json.dumps(json.dumps(charter.basis.fields)))
    return patterns * (numbers + 512) + basis + 8192


def others_limit(charter: Charter) -> int:
    """Gives the most bytes of what a device is told of all others at once.

    One group is told however large it is, and so is what devices lend.
    """
    # A quarter to spare, for long names and for centres.
    return MOST_BYTES * 5 // 4 + content_limit(charter, 1 + SHARES)


def require_makeable(charter: Charter) -> None:
    """Raises ``BadInput`` for a layer that would take all of a device's memory."""
    basis = charter.basis
    size = max(content_limit(charter, 1), 8 * basis.inputs * basis.layer.units)
    if size > _LARGEST:
        raise BadInput(f"its layer would have {size:,} bytes, more than {_LARGEST:,}")
