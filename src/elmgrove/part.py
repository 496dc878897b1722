"""A part of what a device learned: the evidence of one of its patterns."""

from dataclasses import dataclass

from elmgrove.algebra.evidence import Evidence

#: More parts than this are not taken from anybody, so nobody has more.
MOST_PARTS = 16


@dataclass(frozen=True)
class Part:
    """The evidence of a pattern, and how many rows were learned in it since the start.

    Parts of one device never share a row, and under one number only ever grow.
    """

    number: int
    learned: int
    evidence: Evidence
