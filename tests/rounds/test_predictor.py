"""What a federation with a target ends with: targets, principal components, predictions, files."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadFile, BadInput, Basis, HiddenLayer
from elmgrove.algebra.scaling import Scaling
from elmgrove.reading.table import ColumnCells
from elmgrove.rounds.evaluation import GlobalModel
from elmgrove.rounds.predictor import Predictor, Projection, Target
from support.golden import damaged
from support.laws import law_examples
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


def column(*cells: object) -> ColumnCells:
    held = np.empty(len(cells), object)
    held[:] = cells
    return ColumnCells("rows.csv", "column 3 ('mode')", "line", held, np.arange(2, 2 + len(cells)))


def test_classes_are_one_output_each_however_a_number_is_written() -> None:
    target = Target("mode", ("1", "2", "off"))
    T = target.coded(column("1", "2.0", " off ", 1.0, 2))
    np.testing.assert_array_equal(T.argmax(axis=1), [0, 1, 2, 0, 1])
    np.testing.assert_array_equal(T.sum(axis=1), np.ones(5))
    assert target.decoded(T) == ["1", "2", "off", "1", "2"]
    assert target.fits(column("1", "3", "on").cells).tolist() == [True, False, False]


def test_a_cell_that_is_none_of_them_is_named() -> None:
    with pytest.raises(BadInput, match=r"rows.csv, line 3, column 3 \('mode'\): no client has row"):
        Target("mode", ("off", "on")).coded(column("on", "auto"))
    with pytest.raises(BadInput, match=r"line 4, .*: 'hot' is not a finite number"):
        Target("heat").coded(column("1", "2", "hot"))
    assert not Target("heat").fits(column("inf", "nan").cells).any()


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.sampled_from(".,"))
def test_numbers_come_back_in_their_own_units(values: list[float], decimal: str) -> None:
    written = column(*(repr(value).replace(".", decimal) for value in values))
    target = Target("heat")
    T = target.coded(written, decimal)
    fitted = target.fitted(T)
    scaled = fitted.scaled(T)
    assert abs(scaled.mean()) <= 1e-6 * (1 + abs(fitted.mean) / fitted.unit)
    np.testing.assert_allclose(fitted.decoded(scaled), values, rtol=1e-9, atol=1e-6)
    assert Target.from_fields(fitted.fields) == fitted


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"classes": ("on",)}, "every 'mode' is 'on': nothing to tell apart"),
        ({"classes": ("on", "off")}, "sorted"),
        ({"classes": tuple(f"{i:04}" for i in range(1001))}, "more than the 1000 classes"),
        ({"unit": 0.0}, "no scale"),
        ({"mean": np.nan}, "no scale"),
    ],
)
def test_what_can_not_be_predicted_is_refused(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        Target("mode", **settings)


def rows(seed: int, count: int = 60, columns: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, columns)) @ rng.normal(size=(columns, columns)) + 7.0


def fitted(X: np.ndarray, variance: float, scaling: str = "none") -> Projection:
    return Projection.fitted(X, None, {}, scaling=scaling, variance=variance)


@settings(max_examples=law_examples(25), deadline=None)
@given(seed=st.integers(0, 100), variance=st.floats(0.05, 1.0))
def test_the_fewest_components_with_the_share_are_kept(seed: int, variance: float) -> None:
    X = rows(seed)
    made = fitted(X, variance)
    singular = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    shares = np.cumsum(singular) / singular.sum()
    assert shares[made.components - 1] >= variance - 1e-12
    assert made.components == 1 or shares[made.components - 2] < variance
    Z = made(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-9)
    # Uncorrelated, the largest first, with the variance of the singular values.
    np.testing.assert_allclose(
        np.cov(Z, rowvar=False) * (len(X) - 1),
        np.diag(singular[: made.components]),
        atol=1e-9 * singular[0],
    )


def test_columns_are_scaled_before() -> None:
    X = rows(1) * [1.0, 1e3, 1.0, 1.0, 1e-3]
    made = fitted(X, 1.0, "standard")
    scaled = (X - made.scaling.shift) / made.scaling.scale
    np.testing.assert_allclose(made(X) @ made.axes.T + made.mean, scaled, atol=1e-9)


def test_packed_it_comes_back_the_same() -> None:
    X = rows(2)
    made = Projection.fitted(
        X, ["a", "b", "c", "m=1", "m=2"], {"m": ["1", "2"]}, scaling="standard", variance=0.9
    )
    again = Projection.unpacked(*made.packed())
    assert again is not None
    assert (again.features, again.categories) == (made.features, made.categories)
    np.testing.assert_array_equal(again(X), made(X))
    assert Projection.unpacked(None, {}) is None


@pytest.mark.parametrize("variance", [0.0, -1.0, 1.1, float("nan")])
def test_a_share_is_a_share(variance: float) -> None:
    with pytest.raises(BadInput, match="share"):
        fitted(rows(3), variance)


def test_axes_that_do_not_fit_are_refused() -> None:
    made = fitted(rows(4), 0.9)
    for mean, axes in (
        (made.mean[1:], made.axes),
        (made.mean * np.nan, made.axes),
        (made.mean, made.axes[:, 0]),
        (made.mean, made.axes.astype(np.float32)),
    ):
        with pytest.raises(BadInput):
            Projection(None, (), made.scaling, mean, axes)
