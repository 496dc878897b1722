"""What must be equal before two pieces of evidence may be added."""

import dataclasses
import json

import numpy as np
import pytest

from elmgrove import BadInput, Basis, HiddenLayer, Mismatch, Scaling

LAYER = HiddenLayer(2, 3, "tanh", seed=7)
BASIS = Basis(LAYER, 2, ("temperature", "speed"), Scaling.minmax([0, 0], [100, 3000]))


@pytest.mark.parametrize(
    "basis",
    [
        BASIS,
        Basis(LAYER, 5),
        Basis(LAYER, 2, ("größe", "名")),
        Basis(LAYER, 1, None, Scaling.standard([0.1, 1 / 3], [1e-300, 2])),
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


def test_a_basis_made_again_from_the_same_numbers_is_accepted() -> None:
    BASIS.require(dataclasses.replace(BASIS))


def test_every_whole_number_will_do_for_outputs() -> None:
    assert Basis(LAYER, np.int64(4)).fingerprint == Basis(LAYER, 4).fingerprint


@pytest.mark.parametrize("outputs", [0, -1, 2.5, "3", None, True])
def test_bad_outputs_are_refused(outputs: object) -> None:
    with pytest.raises(BadInput, match="outputs"):
        Basis(LAYER, outputs)


@pytest.mark.parametrize("features", [(), ("a",), ("a", "b", "c")])
def test_each_input_needs_its_name(features: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match=rf"{len(features)} feature names for 2 inputs"):
        Basis(LAYER, 2, features)


def test_each_input_needs_its_scale() -> None:
    with pytest.raises(BadInput, match="scaling of 3 columns for 2 inputs"):
        Basis(LAYER, 2, scaling=Scaling.minmax([0, 0, 0], [1, 1, 1]))
