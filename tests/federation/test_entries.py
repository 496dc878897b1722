"""Entries travel as bytes that anybody may have written: contributions, departures, bundles."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadFile, BadInput, Basis, Evidence, HiddenLayer, Scaling
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import (
    EVIDENCE_FORMAT,
    Contribution,
    Departure,
    bundle,
    entry_from_bytes,
    unbundle,
)
from elmgrove.storage.sealed import seal, unseal
from support.golden import Golden, damaged

# What the golden files of evidence hold, in full. All sums are exact in binary, so they are
# the same on every machine. A new version of the format gets new files beside them.
LAYER = HiddenLayer(inputs=3, units=2, activation="relu", weights="binary", seed=35)
SCALING = Scaling.minmax([0.0, 10.0, -4.0], [2.0, 14.0, 4.0])
FEATURES = ("Wärme [°C]", "load", "r/min")
BASIS = Basis(LAYER, 3, FEATURES, SCALING)
ROWS = np.array([[1.0, 12.0, 0.0], [0.5, 13.0, -2.0], [2.0, 10.0, 4.0], [0.0, 11.0, 2.0]])
MIXED = Basis(replace(LAYER, activation="identity"), 3, FEATURES, SCALING, score="distance")
WINDOWS = Basis(HiddenLayer(1, 2, seed=7), 2, None, Scaling(), window=2, score="distance")
WINDOW_ROWS = np.array([[4.0], [4.5], [5.0], [3.5], [4.0]])


def golden(
    name: str, fingerprint: str, basis: Basis, numbers: dict[str, Any], arrays: dict[str, Any]
) -> Golden:
    scaling = {"kind": "minmax", "shift": [0.0, 10.0, -4.0], "scale": [2.0, 4.0, 8.0]}
    layer = basis.layer
    fields = {
        "origin": "Lüfter 1",
        "epoch": 4,
        "basis": {
            "layer": {
                "inputs": layer.inputs,
                "units": 2,
                "activation": layer.activation,
                "weights": layer.weights,
                "seed": layer.seed,
            },
            "outputs": basis.outputs,
            "features": list(FEATURES) if layer.inputs == 3 else None,
            "scaling": scaling if layer.inputs == 3 else Scaling().fields,
            "window": basis.window,
            "score": basis.score,
            "spectrum": None,
        },
        "fingerprint": fingerprint,
        **numbers,
    }
    return Golden(name, EVIDENCE_FORMAT, fields, arrays)


GOLDENS = [
    golden(
        "fan-1-loss.evidence",
        "b4fa3ee063d32f1f313e9d506e443b01",
        BASIS,
        {"energy": 4.0625, "count": 4.0},
        {
            "U": np.array([2.0625, 1.3125, 3.5625]),
            "V": np.array([[0.5625, 1.3125, 0.9375], [1.3125, 0.8125, 2.4375]]),
        },
    ),
    golden(
        "fan-1.evidence",
        "2d6e3af6637149249f117a026415302d",
        MIXED,
        {"count": 4.0},
        {
            "C": np.array([[-2.1875, -0.1875, -2.5625], [-0.4375, -0.6875, -0.0625]]),
            "s": np.array([1.75, 1.5, 2.5]),
            "e": np.array([1.3125, 0.875, 1.875]),
        },
    ),
    golden(
        "fan-1-windows.evidence",
        "402489649d406c7556eb7bcd565bed7b",
        WINDOWS,
        {"count": 4.0},
        {
            "C": np.array([1.25, -0.25, 1.25]),
            "s": np.array([0.0, 0.0]),
            "e": np.array([1.25, 1.25]),
            "centre": np.array([4.25, 4.25]),
        },
    ),
]
LOSS, DISTANCE, IN_WINDOWS = GOLDENS


# The golden files


EACH = pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)


@EACH
def test_a_golden_file_holds_what_is_stated_here_and_is_written_again_byte_by_byte(
    golden: Golden,
) -> None:
    golden.require_held()
    assert Contribution.from_bytes(golden.blob).to_bytes() == golden.blob
    assert Contribution.from_bytes(golden.resealed({}, {})).to_bytes() == golden.blob


@pytest.mark.parametrize(
    ("golden", "basis", "rows"),
    [(LOSS, BASIS, ROWS), (DISTANCE, MIXED, ROWS), (IN_WINDOWS, WINDOWS, WINDOW_ROWS)],
)
def test_a_golden_file_is_what_a_device_gives_that_learned_its_rows(
    golden: Golden, basis: Basis, rows: np.ndarray
) -> None:
    me = Charter("fans", basis).start("Lüfter 1")
    me.detector.learn_many(rows)
    assert me.contribution().to_bytes() == golden.blob
    assert me.contribution().evidence.admissible()


@EACH
def test_every_truncation_and_flipped_bit_of_a_golden_file_is_refused(golden: Golden) -> None:
    for blob in damaged(golden.blob):
        with pytest.raises(BadFile):
            Contribution.from_bytes(blob)


# Round trips


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_contribution_comes_back_to_the_last_bit(dtype: Any) -> None:
    X = np.random.default_rng(1).normal(size=(50, 3)).astype(dtype)
    H = LAYER(X)
    U, V = (H.T @ H).astype(dtype), (H.T @ X).astype(dtype)
    evidence = Evidence(BASIS, U, V, np.square(X).sum(), 31.7)
    sent = Contribution("fan", 50, (evidence,))
    read = Contribution.from_bytes(sent.to_bytes())
    assert read == sent
    assert read.evidence.U.dtype == read.evidence.V.dtype == dtype
    assert sent.to_bytes() == Contribution("fan", 50, (evidence,)).to_bytes()


# Names and epochs


@pytest.mark.parametrize(
    ("origin", "epoch"),
    [
        *((origin, 1) for origin in ("", "a\nb", "\x1b[31m", "x" * 201, "\ud800")),
        *(("fan", epoch) for epoch in (-1, 1.5, True, "3", 2**63)),
    ],
)
def test_a_name_or_an_epoch_that_is_none_is_refused(origin: str, epoch: Any) -> None:
    for make in (Departure, lambda *of: Contribution(*of, (Evidence.zero(BASIS),))):
        with pytest.raises(BadInput, match=r"printable|epoch"):
            make(origin, epoch)


# Where anomalous begins there


@EACH
def test_a_threshold_travels_and_older_files_state_none(golden: Golden) -> None:
    older = Contribution.from_bytes(golden.blob)
    assert older.threshold is None
    stated = replace(older, threshold=2.5)
    fields, _ = unseal(EVIDENCE_FORMAT, stated.to_bytes())
    assert fields == golden.fields | {"threshold": 2.5}
    assert Contribution.from_bytes(stated.to_bytes()) == stated != older


@pytest.mark.parametrize("threshold", [math.nan, math.inf, -math.inf, -1.0, "3", True, 3, [3.0]])
def test_a_threshold_is_a_finite_number_from_0_on(threshold: Any) -> None:
    with pytest.raises(BadInput, match="threshold"):
        Contribution("fan", 1, (Evidence.zero(BASIS),), threshold)


@pytest.mark.parametrize("threshold", [-1.0, "3", True, 3, [3.0]])
def test_a_threshold_that_is_sealed_all_the_same_is_refused(threshold: Any) -> None:
    with pytest.raises(BadFile, match="threshold"):
        Contribution.from_bytes(LOSS.resealed({"threshold": threshold}, {}))


@pytest.mark.parametrize("text", [b"    NaN", b"1e99999", b"-1e9999"])
def test_a_threshold_that_json_makes_no_number_of_is_refused(text: bytes) -> None:
    blob = LOSS.resealed({"threshold": 12345.0}, {})
    assert blob.count(b"12345.0") == 1
    with pytest.raises(BadFile):
        Contribution.from_bytes(blob.replace(b"12345.0", text))


# Sealed by a program that does not follow the rules

WRONG_FIELDS = [
    *((LOSS, name, ...) for name in LOSS.fields),
    *((LOSS, f"basis/{name}", ...) for name in LOSS.fields["basis"]),
    *((LOSS, f"basis/layer/{name}", ...) for name in ("units", "inputs")),
    *(
        (LOSS, path, value)
        for path, value in [
            ("origin", 5),
            ("origin", ""),
            ("origin", ["fan"]),
            ("origin", "two\nlines"),
            ("epoch", -1),
            ("epoch", 1.5),
            ("epoch", "4"),
            ("epoch", None),
            ("energy", None),
            ("energy", "27.0"),
            ("energy", 10**400),
            ("count", 10**400),
            ("count", []),
            ("fingerprint", "0" * 32),
            ("basis", []),
            ("basis", None),
            ("basis/outputs", 4),
            ("basis/outputs", "3"),
            ("basis/outputs", 10**30),
            ("basis/window", 0),
            ("basis/window", 1.5),
            ("basis/window", "1"),
            ("basis/window", 2),
            ("basis/score", "distance"),
            ("basis/score", "error"),
            ("basis/score", None),
            ("basis/features", "abc"),
            ("basis/features", ["a", "b"]),
            ("basis/features", 3),
            ("basis/scaling", None),
            ("basis/scaling/kind", "minmaxx"),
            ("basis/scaling/shift", [0.0]),
            ("basis/scaling/scale", [0.0, 4.0, 8.0]),
            ("basis/scaling/scale", {"a": 1}),
            ("basis/layer", {}),
            ("basis/layer/units", 3),
            ("basis/layer/units", -1),
            ("basis/layer/units", 2.0),
            ("basis/layer/units", 10**6),
            ("basis/layer/units", 10**30),
            ("basis/layer/activation", "identical"),
            ("basis/layer/activation", []),
            ("basis/layer/more", 1),
        ]
    ),
    *(
        (DISTANCE, path, value)
        for path, value in [
            ("basis/score", "loss"),
            ("basis/layer/activation", "tanh"),
            ("basis/outputs", 2),
            ("basis/window", 2),
            ("energy", 4.0),
            ("count", ...),
        ]
    ),
]
WRONG_ARRAYS = [
    *(
        (LOSS, name, value)
        for name, value in [
            ("U", ...),
            ("V", ...),
            ("U", np.ones(1)),
            ("U", np.ones((1, 3))),
            ("U", np.ones((3, 1))),
            ("U", np.ones(4)),
            ("U", np.ones((2, 2))),
            ("U", np.ones(3, np.int64)),
            ("U", np.ones(3, np.float16)),
            ("V", np.ones((3, 2))),
            ("V", np.ones(6)),
            ("V", np.ones((2, 1))),
            ("V", np.ones((2, 3), bool)),
            ("W", np.ones(2)),
        ]
    ),
    *((DISTANCE, name, ...) for name in "Cse"),
    (DISTANCE, "C", np.ones(6)),
    (DISTANCE, "C", np.ones((3, 2))),
    (DISTANCE, "C", np.ones((2, 3), np.int64)),
    (DISTANCE, "s", np.ones(2)),
    (DISTANCE, "s", np.ones((3, 1))),
    (DISTANCE, "s", np.ones(3, np.float32)),
    (DISTANCE, "e", np.ones(4)),
    (DISTANCE, "e", np.ones(3, bool)),
    (DISTANCE, "centre", np.zeros(3)),
    (DISTANCE, "centre", np.ones(2)),
    (DISTANCE, "U", np.ones(3)),
    (IN_WINDOWS, "C", np.ones((2, 2))),
    (IN_WINDOWS, "C", np.ones(4)),
    (IN_WINDOWS, "s", np.ones(1)),
    (IN_WINDOWS, "centre", np.ones(1)),
    (IN_WINDOWS, "centre", np.ones(2, np.float32)),
]


@pytest.mark.parametrize(("golden", "path", "value"), WRONG_FIELDS)
def test_a_sealed_file_with_a_wrong_field_is_refused(golden: Golden, path: str, value: Any) -> None:
    with pytest.raises(BadFile, match="not as evidence should be"):
        Contribution.from_bytes(golden.resealed({path: value}, {}))


@pytest.mark.parametrize(("golden", "name", "value"), WRONG_ARRAYS)
def test_a_sealed_file_with_a_wrong_array_is_refused(golden: Golden, name: str, value: Any) -> None:
    with pytest.raises(BadFile, match="not as evidence should be"):
        Contribution.from_bytes(golden.resealed({}, {name: value}))


def test_evidence_of_before_0_2_is_refused_by_its_age() -> None:
    blob = LOSS.blob.replace(b'version\\":2', b'version\\":1')
    assert blob != LOSS.blob
    with pytest.raises(BadFile, match=r"version 1 of the format by an Elmgrove before 0\.2"):
        Contribution.from_bytes(blob)


def test_evidence_that_no_rows_can_have_is_read_but_not_called_admissible() -> None:
    """So that ``inspect`` can show it; a device that merges asks first."""
    lie = Contribution.from_bytes(LOSS.resealed({"energy": 0.0}, {}))
    assert "energy" in lie.evidence.admissible().reason
    broken = Contribution.from_bytes(LOSS.resealed({}, {"U": np.full(3, np.nan)}))
    assert "not finite" in broken.evidence.admissible().reason
    forged = Contribution.from_bytes(DISTANCE.resealed({}, {"e": np.full(3, 0.25)}))
    assert "larger than" in forged.evidence.admissible().reason
    nowhere = {"centre": np.array([np.inf, 0.0, 0.0])}
    broken = Contribution.from_bytes(DISTANCE.resealed({}, nowhere))
    assert "the centre is not finite" in broken.evidence.admissible().reason


# Departures travel like contributions and take their place

GONE = Departure("Lüfter 2", 7)
SAID = Contribution("Lüfter 2", 7, (Evidence.zero(Basis(HiddenLayer(3, 2, seed=1), 3)),))


@pytest.mark.parametrize("entry", [GONE, SAID, Departure("a", 0), Departure("a", 2**63 - 1)])
def test_an_entry_is_the_same_after_its_journey(entry: Departure | Contribution) -> None:
    assert entry_from_bytes(entry.to_bytes()) == entry


def test_a_departure_is_not_taken_for_evidence() -> None:
    with pytest.raises(BadFile, match="no evidence: it says that 'Lüfter 2' left"):
        Contribution.from_bytes(GONE.to_bytes())


def test_every_truncation_and_flipped_bit_of_a_departure_is_refused() -> None:
    for blob in damaged(GONE.to_bytes()):
        with pytest.raises(BadFile):
            entry_from_bytes(blob)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"origin": "a"},
        {"origin": "", "epoch": 1},
        {"origin": "a\n", "epoch": 1},
        {"origin": "a", "epoch": -1},
        {"origin": "a", "epoch": 2**63},
        {"origin": "a", "epoch": 1.0},
        {"origin": "a", "epoch": True},
        {"origin": 5, "epoch": 1},
        {"origin": "a", "epoch": 1, "more": 1},
        {"origin": "a", "epoch": 1, "left": 1},
        {"origin": "a", "epoch": 1, "left": False},
    ],
)
def test_a_sealed_departure_with_wrong_fields_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadFile, match="not as evidence should be"):
        entry_from_bytes(seal(EVIDENCE_FORMAT, {"left": True} | fields, {}))


# Entries that travel together


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_what_is_bundled_comes_out_again(blobs: list[bytes]) -> None:
    assert list(unbundle(bundle(blobs))) == blobs


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.data())
def test_a_bundle_that_ends_too_soon_is_refused(blobs: list[bytes], data: st.DataObject) -> None:
    whole = bundle(blobs)
    ends = [len(bundle(blobs[:count])) for count in range(len(blobs) + 1)]
    cut = data.draw(st.sampled_from([n for n in range(len(whole)) if n not in ends]))
    with pytest.raises(BadFile, match="ends in the middle of an entry"):
        list(unbundle(whole[:cut]))


def test_a_length_beyond_all_memory_is_refused() -> None:
    with pytest.raises(BadFile, match="ends in the middle of an entry"):
        list(unbundle(b"\xff" * 8 + b"x"))
