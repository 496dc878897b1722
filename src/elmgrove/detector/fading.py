"""Fading: what was learned counts less, so that what comes counts more."""

from dataclasses import replace

from elmgrove.detector.detector import Detector


def fade(detector: Detector, weight: float) -> None:
    """Lets every row learned up to now count so many times as much, and the detector learn again.

    Own evidence stays what it says it is, a sum over rows with weights, and so do the increments
    that a time span can be taken out of. The threshold belonged to another model: until there is
    one, and counting has shown its rate, nothing is strange and all rows are learned.
    """
    increments = detector.increments
    increments.cut()
    detector.forget_undo()
    # No longer in order: single rows of them count otherwise than those that come.
    increments.kept = [
        replace(
            one,
            times=one.times._replace(ordered=False),
            pieces=tuple(piece.faded(weight) for piece in one.pieces),
        )
        for one in increments.kept
    ]
    for part in detector.model.parts:
        detector.model.reduce_to(increments.rest(part))
    detector.gate.begin()
