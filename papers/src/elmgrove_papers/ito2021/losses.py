"""§5.2: mean losses on patterns, of two devices on their own and of the model they share then."""

from collections.abc import Mapping

from elmgrove.algebra import Array, Basis
from elmgrove_papers.figure import Numbers
from elmgrove_papers.fleet import Fleet

A, B, MERGED = "Device-A", "Device-B", "merged"


def two_devices(basis: Basis, own: Array, other: Array) -> Fleet:
    """Device-A has learned its own rows and Device-B the other ones; nothing is merged yet."""
    fleet = Fleet(basis)
    for name, rows in ((A, own), (B, other)):
        fleet.learn(name, rows)
    return fleet


def before_and_after(fleet: Fleet, tested: Mapping[str, Array]) -> dict[str, Numbers]:
    """For each pattern the mean loss of both devices, and after the cooperative model update.

    After it both have the same model, to rounding; Device-B's is taken.
    """
    before = {name: _losses(fleet, name, tested) for name in (A, B)}
    fleet.sync()
    after = _losses(fleet, B, tested)
    return {
        pattern: {A: before[A][pattern], B: before[B][pattern], MERGED: after[pattern]}
        for pattern in tested
    }


def _losses(fleet: Fleet, name: str, tested: Mapping[str, Array]) -> dict[str, float]:
    score = fleet.detector(name).score_many
    return {pattern: float(score(rows).mean()) for pattern, rows in tested.items()}
