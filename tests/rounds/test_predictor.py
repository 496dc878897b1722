"""Predictors: what they predict is what the equations say, and files come back whole."""

import numpy as np
import pytest

from elmgrove import BadFile, BadInput, Basis, HiddenLayer
from elmgrove.algebra.scaling import Scaling
from elmgrove.rounds.evaluation import GlobalModel
from elmgrove.rounds.predictor import Predictor, Target
from support.golden import damaged
from support.places import GOLDEN

LAYER = HiddenLayer(2, 3, "relu", "binary", seed=35)
BASIS = Basis(LAYER, 2, ("heat", "load"), Scaling.standard([20.0, 1.0], [5.0, 0.5]))
BETA = np.array([[0.5, -1.0], [0.25, 2.0], [-0.5, 0.0]])
MODE = Target("mode", ("off", "on"))
NUMBER = Basis(LAYER, 1, ("heat", "load"))
#: The golden file has these: a new version of the format gets another one beside it.
GROUPS = Predictor(BASIS, MODE, (GlobalModel(BETA, 7.0), GlobalModel(-BETA, 9.0)), {"decimal": ","})
X = np.array([[20.0, 1.0], [30.0, 1.5], [15.0, 0.0]])


def test_predictions_are_those_of_the_literal_equations() -> None:
    scaled = (X - [20.0, 1.0]) / [5.0, 0.5]
    H = np.maximum(scaled @ LAYER.alpha + LAYER.b, 0.0)
    for place, sign in ((0, 1.0), (1, -1.0)):
        told = [("off", "on")[int(a < b)] for a, b in sign * (H @ BETA)]
        assert GROUPS.predict(X, place) == told
    # The group of the most rows answers unless another is chosen.
    assert GROUPS.largest == 1
    assert GROUPS.predict(X) == GROUPS.predict(X, 1)
    number = Predictor(NUMBER, Target("y", mean=3.0, unit=2.0), (GlobalModel(BETA[:, :1], 7.0),))
    H = np.maximum(X @ LAYER.alpha + LAYER.b, 0.0)
    np.testing.assert_allclose(number.predict(X), (H @ BETA[:, 0]) * 2.0 + 3.0, rtol=1e-12)


def test_the_golden_file_is_read_and_written_as_it_was() -> None:
    blob = (GOLDEN / "predictor-1.elm").read_bytes()
    assert GROUPS.to_bytes() == blob
    read = Predictor.from_bytes(blob)
    assert (read.basis, read.target, read.layout) == (BASIS, MODE, {"decimal": ","})
    assert [model.rows for model in read.models] == [7.0, 9.0]
    np.testing.assert_array_equal(read.models[1].beta, -BETA, strict=True)


def test_altered_files_are_refused() -> None:
    blob = GROUPS.to_bytes()
    for bad in damaged(blob, 37):
        with pytest.raises(BadFile):
            Predictor.from_bytes(bad)


@pytest.mark.parametrize(
    "parts",
    [
        (BASIS, MODE, ()),
        (BASIS, Target("y"), (GlobalModel(BETA, 7.0),)),
        (BASIS, MODE, (GlobalModel(BETA[:2], 7.0),)),
        (BASIS, MODE, (GlobalModel(BETA * np.nan, 7.0),)),
        (BASIS, MODE, (GlobalModel(BETA, 0.0),)),
    ],
)
def test_what_does_not_fit_is_no_predictor(parts: tuple) -> None:
    with pytest.raises(BadInput):
        Predictor(*parts)
