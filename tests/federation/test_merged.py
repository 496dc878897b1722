"""A merged sum travels whole or not at all."""

from dataclasses import replace

import numpy as np
import pytest

from elmgrove import BadFile, BadInput, Basis, Evidence, HiddenLayer
from elmgrove.federation.merged import MERGED_FORMAT, Merged, Own
from elmgrove.storage.sealed import seal, unseal

BASIS = Basis(HiddenLayer(3, 2, activation="relu", seed=1), 3, ("a", "b", "c"))


def merged(dtype: type = np.float64) -> Merged:
    X = np.random.default_rng(1).normal(size=(5, 3)).astype(dtype)
    H = BASIS.layer(X)
    U, V = (H.T @ H).astype(dtype), (H.T @ X).astype(dtype)
    evidence = Evidence(BASIS, U, V, float(np.square(X).sum()), 5)
    return Merged("fans", 12, 3, (evidence,))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sum_is_the_same_after_its_journey(dtype: type) -> None:
    arrived = Merged.from_bytes(merged(dtype).to_bytes())
    assert arrived == merged(dtype)
    assert arrived.evidence.resolution == np.finfo(dtype).eps
    nobody = Merged("fans", 0, 0, (Evidence.zero(BASIS),))
    assert Merged.from_bytes(nobody.to_bytes()) == nobody


@pytest.mark.parametrize("rule", ["everyone", "group", "fan-1,Lüfter/2"])
def test_groups_are_the_same_after_their_journey(rule: str) -> None:
    evidence = merged().evidence
    for groups in ((), (evidence,), (evidence, evidence)):
        parts, apart = groups or (Evidence.zero(BASIS),), bool(groups)
        sent = Merged(
            "fans",
            12,
            len(groups),
            parts,
            rule,
            apart,
            used=("fan-1",),
            left_out=(("fan-7", "12 times worse"),),
            own=Own(3, True),
        )
        arrived = Merged.from_bytes(sent.to_bytes())
        assert arrived == sent


def test_it_says_whom_it_uses() -> None:
    evidence = merged().evidence
    for devices, used, said in (
        (0, (), "0 other devices"),
        (2, ("fan-1", "fan-3"), "fan-1, fan-3"),
        (900, tuple(f"{n}" for n in range(20)), "0, 1, 2 and 897 more"),
        (900, (), "900 other devices"),
    ):
        told = Merged("fans", 1, devices, (evidence,), "quality", used=used)
        assert str(told) == said
        odd = replace(told, left_out=(("fan-7", "12 times worse"),))
        assert str(odd) == f"{said}; left out: fan-7, 12 times worse"


def test_truncations_and_flipped_bits_are_refused() -> None:
    blob = merged().to_bytes()
    for place in range(0, len(blob), 3):
        flipped = bytearray(blob)
        flipped[place] ^= 1 << place % 8
        for damaged in (blob[:place], bytes(flipped)):
            with pytest.raises(BadFile):
                Merged.from_bytes(damaged)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("federation", wrong) for wrong in ("", 5, None)),
        *(("revision", wrong) for wrong in (-1, 1.0, 2**63)),
        *(("devices", wrong) for wrong in (-1, "3")),
        ("basis", {}),
        *(("rule", wrong) for wrong in (None, "", "a\nb", 1, ["evidence"], "everyone")),
        *(("used", wrong) for wrong in (5, [5], [""], ["x\n"], ["x"] * 21, [])),
        *(("left_out", wrong) for wrong in (5, ["x"], [["x"]], [["x", ""]], [["x", "y"]] * 21)),
        *(("own", wrong) for wrong in (5, [5], [-1, True], [5, 1], [2**63, False], None)),
        ("more", 1),
    ],
)
def test_a_sealed_sum_with_a_wrong_field_is_refused(name: str, value: object) -> None:
    fields, arrays = unseal(MERGED_FORMAT, merged().to_bytes())
    with pytest.raises(BadFile, match="not as a merged sum should be"):
        Merged.from_bytes(seal(MERGED_FORMAT, {**fields, name: value}, arrays))


def test_a_number_that_is_none_is_refused() -> None:
    for revision, devices in ((-1, 0), (0, -1)):
        with pytest.raises(BadInput):
            Merged("fans", revision, devices, (Evidence.zero(BASIS),))
