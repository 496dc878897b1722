"""The classifier in whole numbers beside the float model that it was made of."""

import numpy as np

from elmgrove.algebra import OSELM, HiddenLayer
from elmgrove.rounds import CompactClassifier
from elmgrove_papers.fed_elms.digits import Digits
from elmgrove_papers.fed_elms.trial import on_one_thread


def whole_numbers(digits: Digits, layer: HiddenLayer) -> dict[str, float]:
    """How far the classifier in whole numbers is from the float model of all clients' rows.

    Errors are those of outputs, on the test rows within the range that the initial batch has.
    """
    with on_one_thread():
        # By merging it would be the same.
        model = OSELM(layer, digits.outputs)
        model.learn_many(digits.X[digits.learned], digits.T[digits.learned])
        largest = float(np.abs(digits.X[digits.initial]).max())
        small = CompactClassifier.of(model.basis, model.beta, largest)
        exact, found = layer(digits.test) @ model.beta, small.outputs(digits.test)
        inside = np.abs(digits.test).max(axis=1) <= largest
        off = np.abs(found - exact)[inside]
        deviation = small.deviation(digits.test[inside])
        return {
            "accuracy, %": digits.accuracy(found),
            "float, %": digits.accuracy(exact),
            "agreement, %": 100.0 * float((found.argmax(axis=1) == exact.argmax(axis=1)).mean()),
            "rows within the range, %": 100.0 * float(inside.mean()),
            "largest error": float(off.max()),
            "error, root mean square": float(np.sqrt(np.mean(off**2))),
            "deviation, root mean square": float(np.sqrt(np.mean(deviation**2))),
            "largest error, in deviations": float((off / deviation).max()),
            "tolerance, mean": float(small.tolerance(digits.test[inside]).mean()),
        }
