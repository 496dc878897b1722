"""A part of what a device learned: the evidence of one of its patterns."""

from dataclasses import dataclass

from elmgrove.evidence import Evidence


@dataclass(frozen=True)
class Part:
    """The evidence of a pattern, and how many rows were learned in it.

    ``includes`` are the numbers of patterns that were joined to this one.
    """

    number: int
    learned: int
    evidence: Evidence
    includes: tuple[int, ...] = ()
