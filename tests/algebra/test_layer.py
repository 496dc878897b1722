"""The hidden layer: the same on every device, and told apart where it is not."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from elmgrove import BadInput, HiddenLayer
from elmgrove.algebra.layer import DISTRIBUTIONS, differences, fingerprint
from support import literal

ACTIVATIONS = ("identity", "sigmoid", "relu", "tanh")

# 2 inputs, 3 units: α row by row, b, and the fingerprint that travels with every message.
GOLDEN = {
    ("uniform", 7): (
        "0x1.00320d4f8f2a4p-2 0x1.96bf36f2bc99ap-1 0x1.1a4d597e502bep-1 "
        "-0x1.19634950aa578p-1 -0x1.99426b378e458p-2 0x1.7e84cb5d23e88p-1",
        "-0x1.fa9bbb6459796p-1 0x1.48f01a3dffc80p-1 0x1.3032f7e486986p-1",
        "3b6b73298739472bc9b80482f0ba8e5a",
    ),
    ("uniform", 20260101): (
        "-0x1.121fee7630bc6p-1 0x1.4ffaf2229b31cp-1 0x1.ca3ff483a2180p-5 "
        "0x1.9f565fd1e03c0p-1 -0x1.546a7bda72f0ap-1 0x1.e2d3f7825d374p-2",
        "0x1.9f02d7e00b4d8p-1 -0x1.27a5d810148f4p-2 0x1.4255beef7c1d6p-1",
        "248488dd5b24598671c021af10c48599",
    ),
    ("binary", 7): (
        "-0x1.0000000000000p+0 -0x1.0000000000000p+0 -0x1.0000000000000p+0 "
        "0x1.0000000000000p+0 -0x1.0000000000000p+0 -0x1.0000000000000p+0",
        "-0x1.0000000000000p+0 0x1.0000000000000p+0 0x1.0000000000000p+0",
        "9d5251da93d33a9a144f4b3b04231d25",
    ),
    ("binary", 20260101): (
        "-0x1.0000000000000p+0 0x1.0000000000000p+0 0x1.0000000000000p+0 "
        "-0x1.0000000000000p+0 -0x1.0000000000000p+0 0x1.0000000000000p+0",
        "-0x1.0000000000000p+0 -0x1.0000000000000p+0 0x1.0000000000000p+0",
        "01f8ed8a24372db591fa2f11407f6477",
    ),
}


@pytest.mark.parametrize(("weights", "seed"), GOLDEN)
def test_alpha_b_and_fingerprint_are_the_pinned_ones_bit_for_bit(weights: str, seed: int) -> None:
    layer = HiddenLayer(inputs=2, units=3, activation="tanh", weights=weights, seed=seed)
    alpha, b, pinned = GOLDEN[weights, seed]
    assert [value.hex() for value in layer.alpha.ravel().tolist()] == alpha.split()
    assert [value.hex() for value in layer.b.tolist()] == b.split()
    assert fingerprint(layer.fields) == pinned


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("weights", DISTRIBUTIONS)
def test_a_call_gives_h_for_rows_and_for_one_row(activation: str, weights: str) -> None:
    layer = HiddenLayer(5, 4, activation, weights, seed=2)
    X = np.random.default_rng(0).normal(size=(6, 5))
    H = literal.hidden(X, layer.alpha, layer.b, activation)
    np.testing.assert_allclose(layer(X), H, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(layer(X[2].tolist()), H[2], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_far_out_rows_give_no_overflow_and_keep_the_bound(activation: str) -> None:
    layer = HiddenLayer(3, 8, activation, seed=5)
    H = layer(np.array([[1e8, -1e8, 1e8], [-1e8, 1e8, 1e8]]))
    assert np.isfinite(H).all()
    if layer.bound is not None:
        assert np.abs(H).max() == layer.bound


CHANGES: dict[str, Any] = {
    "inputs": 6,
    "units": 5,
    "activation": "tanh",
    "weights": "uniform",
    "seed": 8,
}


@pytest.mark.parametrize("field", CHANGES)
def test_each_field_changes_the_fingerprint_and_shows_in_the_difference(field: str) -> None:
    layer = HiddenLayer(5, 4, "sigmoid", "binary", seed=7)
    other = dataclasses.replace(layer, **{field: CHANGES[field]})
    assert layer != other
    assert fingerprint(layer.fields) != fingerprint(other.fields)
    assert differences(layer.fields, other.fields) == [
        f"{field}: {getattr(layer, field)!r} here, {CHANGES[field]!r} there"
    ]


def test_equal_layers_have_equal_fingerprints_whatever_kind_of_whole_number() -> None:
    layer, other = HiddenLayer(5, 4, seed=7), HiddenLayer(np.int64(5), np.int32(4), seed=7)
    assert layer == other
    assert hash(layer) == hash(other)
    assert fingerprint(layer.fields) == fingerprint(other.fields)
    assert differences(layer.fields, other.fields) == []


def test_fields_survive_json() -> None:
    layer = HiddenLayer(5, 4, "relu", "binary", seed=2**70)
    assert HiddenLayer(**json.loads(json.dumps(layer.fields))) == layer


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("inputs", 0),
        ("inputs", -1),
        ("inputs", 2.0),
        ("inputs", "2"),
        ("inputs", None),
        ("inputs", True),
        ("units", 0),
        ("units", 1.5),
        ("seed", -1),
        ("seed", None),
        ("seed", 0.5),
        ("seed", False),
        ("activation", "sin"),
        ("activation", None),
        ("activation", "Tanh"),
        ("activation", ["tanh"]),
        ("weights", "gamma"),
        ("weights", ""),
        ("weights", 1),
    ],
)
def test_a_bad_setting_is_refused_by_name(field: str, value: Any) -> None:
    settings = {"inputs": 3, "units": 2, field: value}
    with pytest.raises(BadInput, match=field):
        HiddenLayer(**settings)
