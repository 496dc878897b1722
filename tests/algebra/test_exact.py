"""Exact sums are exact: compared with rational numbers, whatever is added, in any order."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove.algebra import exact
from elmgrove.algebra.exact import ExactSum, outer, paired, sliced, through

numbers = st.floats(-1e200, 1e200, allow_subnormal=True)
vectors = st.lists(numbers, min_size=3, max_size=3).map(np.array)


def rational(values: np.ndarray) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def require_near(found: np.ndarray, true: list[Fraction]) -> None:
    """Asserts that these are the nearest float64, or neighbours of them."""
    for value, exactly in zip(found, true, strict=True):
        assert abs(Fraction(float(value)) - exactly) <= Fraction(np.spacing(abs(float(exactly))))


@given(st.lists(st.tuples(vectors, st.sampled_from([1.0, -1.0])), max_size=12))
def test_a_sum_is_the_nearest_number_to_the_true_one(
    steps: list[tuple[np.ndarray, float]],
) -> None:
    total, true = ExactSum(3), [Fraction(0)] * 3
    for values, sign in steps:
        total = total.plus(values, sign)
        true = [a + int(sign) * b for a, b in zip(true, rational(values), strict=True)]
    require_near(total.rounded(), true)


def test_bins_that_would_overflow_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_MOST_ADDENDS", 2**6)
    # So that a bin has as little room as it would after 2¹⁶ steps.
    monkeypatch.setattr(exact, "_BIN", 46)
    values, total = np.array([2.0**45 - 99.01, 0.1 - 2.0**44, 3e9]), ExactSum(3)
    for _ in range(1000):
        total = total.plus(values)
    require_near(total.rounded(), [1000 * value for value in rational(values)])
    for _ in range(1000):
        total = total.plus(values, -1.0)
    assert not total.rounded().any()


@given(st.lists(vectors, max_size=8), st.randoms())
def test_what_is_taken_out_in_any_order_leaves_nothing(
    values: list[np.ndarray], chance: np.random.Generator
) -> None:
    total = ExactSum(3)
    for one in values:
        total = total.plus(one)
    chance.shuffle(values)
    for one in values:
        total = total.plus(one, -1.0)
    assert total.nbytes == 0
    assert not total.rounded().any()


small = st.floats(-1e50, 1e50).filter(lambda x: x == 0.0 or abs(x) > 1e-50)
factors = st.lists(small, min_size=2, max_size=2).map(np.array)


@given(factors, factors, factors)
def test_products_are_exact(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    A, x, (p, q) = np.stack([a, b]), rational(c), (rational(a), rational(b))
    of_matrix = ExactSum(2).plus_products(through(sliced(c), sliced(A)))
    require_near(of_matrix.rounded(), [x[0] * p[j] + x[1] * q[j] for j in range(2)])
    each = ExactSum(2).plus_products(paired((sliced(a), sliced(c)), (sliced(b), sliced(c))))
    require_near(each.rounded(), [(p[j] + q[j]) * x[j] for j in range(2)])
    all_pairs = {place: part.ravel() for place, part in outer((sliced(a), sliced(b))).items()}
    total = ExactSum(4).plus_products(all_pairs)
    true = [one * other for one in p for other in q]
    require_near(total.rounded(), true)
    both = paired((ExactSum(2).plus(a).plus(b).sliced(3), sliced(c)))
    total = ExactSum(2).plus_products(both)
    require_near(total.rounded(), [(p[j] + q[j]) * x[j] for j in range(2)])
