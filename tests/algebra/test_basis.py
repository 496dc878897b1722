"""What must be equal before two pieces of evidence may be added."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, HiddenLayer, Mismatch, Scaling
from elmgrove.algebra.layer import differences, fingerprint, suggested_units
from elmgrove.algebra.spectrum import Spectrum

LAYER = HiddenLayer(2, 3, "tanh", seed=7)
SPECTRUM = Spectrum(rate=1000 / 3, length=32, bands=4)
BASIS = Basis(LAYER, 2, ("temperature", "speed"), Scaling.minmax([0, 0], [100, 3000]))


@pytest.mark.parametrize(
    "basis",
    [
        BASIS,
        Basis(LAYER, 5),
        Basis(LAYER, 2, ("größe", "名")),
        Basis(LAYER, 1, None, Scaling.standard([0.1, 1 / 3], [1e-300, 2])),
        Basis(HiddenLayer(2, 3), 2, score="distance"),
        Basis(HiddenLayer(2, 3), 20, ("a", "b"), window=10, score="distance"),
        Basis(LAYER, 6, window=3),
        Basis(HiddenLayer(8, 8), 8, ("a", "b"), score="distance", spectrum=SPECTRUM),
    ],
)
def test_fields_survive_json_exactly(basis: Basis) -> None:
    again = Basis.from_fields(json.loads(json.dumps(basis.fields)))
    assert again == basis
    assert again.fingerprint == basis.fingerprint
    again.require(basis)


OTHERS = {
    "layer.seed: 7 here, 8 there": dataclasses.replace(
        BASIS, layer=HiddenLayer(2, 3, "tanh", seed=8)
    ),
    "layer.activation: 'tanh' here, 'relu' there": dataclasses.replace(
        BASIS, layer=HiddenLayer(2, 3, "relu", seed=7)
    ),
    "outputs: 2 here, 4 there": dataclasses.replace(BASIS, outputs=4),
    "features[1]: 'speed' here, 'rpm' there": dataclasses.replace(
        BASIS, features=("temperature", "rpm")
    ),
    "features: 2 values here, None there": dataclasses.replace(BASIS, features=None),
    "scaling.scale[1]: 3000.0 here, 2500.0 there": dataclasses.replace(
        BASIS, scaling=Scaling.minmax([0, 0], [100, 2500])
    ),
    "scaling.shift[0]: 0.0 here, -20.0 there": dataclasses.replace(
        BASIS, scaling=Scaling.minmax([-20, 0], [80, 3000])
    ),
    "window: 1 here, 10 there": dataclasses.replace(BASIS, window=10),
    "scaling.kind: 'minmax' here, 'standard' there": dataclasses.replace(
        BASIS, scaling=Scaling.standard([0, 0], [100, 3000])
    ),
}


@pytest.mark.parametrize("line", OTHERS)
def test_a_mismatch_names_the_field_with_both_values(line: str) -> None:
    other = OTHERS[line]
    assert other.fingerprint != BASIS.fingerprint
    with pytest.raises(Mismatch) as caught:
        BASIS.require(other)
    heading, *lines = str(caught.value).split("\n  ")
    assert lines == [line]
    assert BASIS.fingerprint[:8] in heading
    assert other.fingerprint[:8] in heading


def test_a_mismatch_names_every_field_that_differs() -> None:
    other = Basis(HiddenLayer(2, 3, "tanh", seed=9), 2, ("speed", "temperature"))
    with pytest.raises(Mismatch) as caught:
        BASIS.require(other)
    assert str(caught.value).split("\n  ")[1:] == [
        "features[0]: 'temperature' here, 'speed' there (and 1 more)",
        "layer.seed: 7 here, 9 there",
        "scaling.kind: 'minmax' here, 'none' there",
        "scaling.scale: 2 values here, 0 values there",
        "scaling.shift: 2 values here, 0 values there",
    ]


@pytest.mark.parametrize("outputs", [0, -1, 2.5, "3", None, True])
def test_bad_outputs_are_refused(outputs: object) -> None:
    with pytest.raises(BadInput, match="outputs"):
        Basis(LAYER, outputs)


# Windows and scores


def test_the_score_is_part_of_what_must_be_equal() -> None:
    layer = HiddenLayer(2, 2)
    loss, distance = Basis(layer, 2), Basis(layer, 2, score="distance")
    assert loss.score == "loss"
    assert loss.fingerprint != distance.fingerprint
    with pytest.raises(Mismatch, match="score: 'loss' here, 'distance' there"):
        loss.require(distance)
    longer = Basis(layer, 4, window=2, score="distance")
    assert longer.fingerprint != distance.fingerprint


def test_bad_scores_are_refused() -> None:
    with pytest.raises(BadInput, match="score must be one of distance, loss, not 'likelihood'"):
        Basis(LAYER, 2, score="likelihood")
    with pytest.raises(BadInput, match=r"linear layer \(activation identity, not tanh\).*'loss'"):
        Basis(LAYER, 2, score="distance")
    with pytest.raises(BadInput, match="2 outputs, where a distance has 6 inputs"):
        Basis(HiddenLayer(2, 3), 2, window=3, score="distance")


@pytest.mark.parametrize(
    ("activation", "window", "score", "units"),
    [
        ("identity", 1, "distance", 3),
        ("identity", 10, "distance", 30),
        ("identity", 40, "distance", 60),
        ("tanh", 1, "loss", 1),
        ("sigmoid", 10, "loss", 7),
    ],
)
def test_a_fitted_basis_has_the_score_and_the_units_that_suit_its_layer(
    activation: str, window: int, score: str, units: int
) -> None:
    rows = np.random.default_rng(1).normal(size=(50, 3))
    names = ["a", "b", "c"]
    basis = Basis.fitted(rows, names, scaling="standard", window=window, activation=activation)
    assert (basis.score, basis.layer.units, basis.window) == (score, units, window)
    assert basis.layer.inputs == 3
    assert basis.outputs == basis.inputs == 3 * window
    assert basis.features == ("a", "b", "c")
    assert basis.scaling == Scaling.fitted("standard", rows)
    assert Basis.fitted(rows, names, scaling="none", score="loss", units=2).layer.units == 2


@pytest.mark.parametrize(
    ("inputs", "distance", "loss"),
    [(1, 1, 1), (2, 2, 1), (8, 8, 4), (16, 16, 4), (64, 64, 16), (65, 32, 16), (561, 128, 128)],
)
def test_units_are_all_inputs_or_half_of_them_at_most(
    inputs: int, distance: int, loss: int
) -> None:
    assert suggested_units(inputs) == suggested_units(inputs, "distance") == distance
    assert suggested_units(inputs, "loss") == loss
    assert suggested_units(inputs, "distance", window=10) == min(distance, 64)


# Spectra


def test_a_spectrum_makes_several_inputs_of_a_column() -> None:
    samples = np.random.default_rng(2).normal(size=(400, 2))
    names = ["left", "right"]
    basis = Basis.fitted(samples, names, scaling="standard", window=3, spectrum=SPECTRUM)
    assert (basis.columns, basis.bands, basis.layer.inputs, basis.inputs) == (2, 4, 8, 24)
    assert basis.features == ("left", "right")
    assert basis.names == SPECTRUM.names(names)
    assert len(basis.scaling.shift) == 8
    with pytest.raises(Mismatch, match="spectrum"):
        basis.require(dataclasses.replace(basis, spectrum=None, features=None))
    with pytest.raises(BadInput, match="6 inputs are no multiple of 4 bands"):
        Basis(HiddenLayer(6, 6), 6, spectrum=SPECTRUM)
    with pytest.raises(BadInput, match="fewer samples than one frame of 32"):
        Basis.fitted(samples[:31], names, scaling="none", spectrum=SPECTRUM)


@given(st.integers(16, 40), st.integers(1, 40), st.integers(0, 200))
def test_frames_lie_where_the_basis_says(length: int, step: int, rows: int) -> None:
    spectrum = Spectrum(100, length, 4, step=min(step, length))
    basis = Basis(HiddenLayer(4, 4), 4, score="distance", spectrum=spectrum)
    samples = np.random.default_rng(0).normal(size=(rows, 1))
    made = spectrum.rows_of(samples)
    assert basis.frames_in(rows) == len(made)
    for first in range(len(made)):
        assert (spectrum.rows_of(samples[basis.span(first, len(made))]) == made[first:]).all()
    assert not len(samples[basis.span(len(made), len(made))])


def test_without_a_spectrum_rows_are_what_they_are() -> None:
    basis = Basis(HiddenLayer(4, 4), 4)
    assert (basis.counted, basis.frames_in(7), basis.span(2, 5)) == ("rows", 7, slice(2, 5))


# Fingerprints depend on the settings alone; differences can be read by a person


def test_the_fingerprint_of_a_setting_never_changes() -> None:
    # Files and messages hold it: another value here is another format.
    fields = {"units": 4, "name": "ventilator-3 °C", "scale": [0.1, 1e300], "none": None}
    assert fingerprint(fields) == "893cb44e66e62bc747481c97466db64a"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_can_not_hold_has_no_fingerprint(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        fingerprint({"a": value})


def test_long_values_are_cut() -> None:
    (line,) = differences({"a": "x" * 500}, {"a": "y"})
    assert line.endswith("… here, 'y' there")
    assert len(line) < 100
