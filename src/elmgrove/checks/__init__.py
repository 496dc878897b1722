"""Laws that every detector must keep, in Elmgrove's own form, scikit-learn's or River's.

If you write a detector, an adapter or a pattern rule: call ``run`` in a test and pin the number
of laws that ran. Neither scikit-learn nor River is needed for it.
"""

from collections.abc import Callable
from typing import Any

from elmgrove.checks.detector_checks import LAWS, Trial


def run(make: Callable[[], Any], *, inputs: int = 8, tolerance: float = 1e-9) -> list[str]:
    """Tries all laws on new detectors from ``make``; gives the names of those that ran.

    ``make`` takes no arguments and gives a new detector for rows of ``inputs`` numbers around
    1, at least 4 of them: one with ``learn_many`` and ``score_many`` as Elmgrove's own, an
    outlier estimator of scikit-learn with ``partial_fit``, or an anomaly detector of River
    (its features are called x0, x1, ...). ``tolerance`` is what rounding may change, as a share of
    the largest score: more than 1e-9 where it counts in float32. The first law that does not hold
    raises ``AssertionError`` with its name.

    >>> from elmgrove import Detector, HiddenLayer
    >>> names = run(lambda: Detector(HiddenLayer(inputs=8, units=4)))
    >>> len(names), names[0]
    (17, 'scores_are_finite_and_not_negative')
    """
    trial = Trial(make, inputs, tolerance)
    for law in LAWS:
        try:
            law(trial)
        except Exception as error:  # whatever fails breaks the law that was tried
            raise AssertionError(f"{law.__name__}: {error}") from error
    return [law.__name__ for law in LAWS]


__all__ = ["LAWS", "run"]
