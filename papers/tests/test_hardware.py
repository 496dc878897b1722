"""Operations and memory: formulas against what is really multiplied and held."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove.algebra import OSELM, HiddenLayer
from elmgrove_papers.ito2021.hardware import (
    DISTANCE,
    GRID,
    LEARNING,
    LOSS,
    PRINTED,
    RIDGE,
    SCORING,
    STEPS,
    Printed,
    cases,
    counted,
    counted_bytes,
    held,
)
from support.commands import Elmgrove
from support.laws import law_examples


class Counting(float):
    """A number that counts the multiplications it takes part in."""

    made = 0

    def __mul__(self, other: Any) -> Any:
        Counting.made += 1
        return Counting(float(self) * float(other))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        return Counting(float(self) + float(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return Counting(float(self) - float(other))

    def __rsub__(self, other: Any) -> Any:
        return Counting(float(other) - float(self))

    def __truediv__(self, other: Any) -> Any:
        return Counting(float(self) / float(other))


def _counting(array: Any) -> Any:
    return np.vectorize(Counting, otypes=[object])(array)


@settings(max_examples=law_examples(10), deadline=None)
@given(n=st.integers(1, 7), units=st.integers(1, 5))
def test_what_is_printed_takes_as_many_multiplications_as_counted(n: int, units: int) -> None:
    rng = np.random.default_rng(0)
    device = Printed(rng.normal(size=(n, units)), rng.normal(size=units), rng.normal(size=(9, n)))
    for name in ("alpha", "b", "P", "beta"):
        setattr(device, name, _counting(getattr(device, name)))
    x = _counting(rng.normal(size=n))
    for step, call in ((LEARNING, device.learn), (SCORING, device.score)):
        Counting.made = 0
        call(x)
        assert Counting.made == counted(n, units)[PRINTED][step]


def test_what_is_printed_is_what_ours_computes() -> None:
    rng = np.random.default_rng(1)
    own, other, new = rng.normal(size=(3, 30, 12))
    layer = HiddenLayer(12, 5, "identity", seed=1)
    device, ours = Printed(layer.alpha, layer.b, own[:20]), OSELM(layer, 12, ridge=RIDGE)
    for x in own[20:]:
        device.learn(x)
    ours.learn_many(own, own)
    for x in new:
        expected = float(((x - ours.predict_one(x)) ** 2).sum())
        assert device.score(x) == pytest.approx(expected, rel=1e-9)
    U, V = Printed(layer.alpha, layer.b, other).give()
    _, beta = device.merge(U - RIDGE * np.eye(5), V)
    ours.learn_many(other, other)
    np.testing.assert_allclose(beta, ours.beta, rtol=1e-8)


@pytest.mark.parametrize(("n", "units"), GRID[:4])
def test_bytes_held_are_those_counted(n: int, units: int) -> None:
    expected = counted_bytes(n, units)
    for way, case in cases(n, units).items():
        assert held(*case.state) == pytest.approx(expected[way], rel=0.01), way


def test_what_is_held_twice_counts_once() -> None:
    a = np.zeros(10)
    assert held({"a": a, "view": a[2:], "more": [a, (a.T,)]}) == a.nbytes


def test_more_units_take_more_of_everything() -> None:
    for way in (PRINTED, LOSS, DISTANCE):
        small, large = counted(100, 8)[way], counted(100, 16)[way]
        assert all(large[step] >= small[step] for step in STEPS)
        assert counted_bytes(100, 8)[way] < counted_bytes(100, 16)[way]


def test_the_figure_counts_and_measures(elmgrove: Elmgrove, tmp_path: Path) -> None:
    done = elmgrove("paper", "ito2021", "hardware", "--quick", "--output", tmp_path)
    assert done.code == 0
    assert "n = 561, Ñ = 64" in done.out
    found = json.loads((tmp_path / "ito2021/hardware.json").read_text())
    for row in (*found["microseconds"].values(), *found["bytes more"].values()):
        assert list(row) == list(STEPS)
        assert min(row.values()) > 0
    assert (tmp_path / "ito2021/hardware.png").stat().st_size > 1000
