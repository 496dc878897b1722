"""Fed-ELMS and FedAvg against their equations as printed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, HiddenLayer, SingularSystem
from elmgrove.algebra.fed_elms import RoundModel, fedavg, first_model, trained
from support.laws import law_examples
from support.literal import Matrix, os_elm_chunk, os_elm_start

LAYER = HiddenLayer(inputs=5, units=8, activation="relu", seed=3)


def rows(seed: int, count: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 5)), rng.normal(size=(count, 3))


def started() -> RoundModel:
    return first_model(LAYER, *rows(0, 60))


def test_the_beginning_is_equations_7_and_8() -> None:
    X0, T0 = rows(0, 60)
    P0, beta0 = os_elm_start(LAYER(X0), T0)
    state = first_model(LAYER, X0, T0)
    np.testing.assert_allclose(state.P, P0, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(state.beta, beta0, rtol=1e-9, atol=1e-12)


def test_rows_that_do_not_determine_a_model_are_refused() -> None:
    X0, T0 = rows(0, 1)
    with pytest.raises(BadInput, match=r"does not determine .* singular"):
        first_model(LAYER, np.repeat(X0, 20, axis=0), np.repeat(T0, 20, axis=0))


@settings(max_examples=law_examples(60), deadline=None)
@given(seed=st.integers(1, 10**6), count=st.integers(0, 40))
def test_a_clients_turn_is_equations_12_and_13(seed: int, count: int) -> None:
    """On both sides of k = Ñ, where the form changes."""
    state, (X, T) = started(), rows(seed, count)
    P, beta = os_elm_chunk(state.P, state.beta, LAYER(X), T)
    found = trained(state, LAYER, X, T)
    np.testing.assert_allclose(found.P, P, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.beta, beta, rtol=1e-8, atol=1e-12)


@settings(max_examples=law_examples(30), deadline=None)
@given(seed=st.integers(1, 10**6), cut=st.integers(0, 30))
def test_rows_in_two_turns_are_the_rows_in_one(seed: int, cut: int) -> None:
    X, T = rows(seed, 30)
    first = trained(started(), LAYER, X[:cut], T[:cut])
    both = trained(first, LAYER, X[cut:], T[cut:])
    once = trained(started(), LAYER, X, T)
    np.testing.assert_allclose(both.beta, once.beta, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(both.P, once.P, rtol=1e-7, atol=1e-10)


def test_many_rows_keep_p_symmetric_and_positive_where_subtracting_would_not() -> None:
    rng = np.random.default_rng(1)
    # So much more than before that P − … is all rounding error.
    X = 1e8 * rng.normal(size=(2000, 5))
    P = trained(started(), LAYER, X, rng.normal(size=(2000, 3))).P
    np.testing.assert_array_equal(P, P.T)
    assert np.linalg.eigvalsh(P).min() > 0
    state, H = started(), LAYER(X)
    np.testing.assert_allclose(P @ (np.linalg.inv(state.P) + H.T @ H), np.eye(8), atol=1e-6)


@settings(max_examples=law_examples(40), deadline=None)
@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any))
def test_the_average_is_equations_10_and_11(counts: list[int]) -> None:
    state = started()
    updates = [trained(state, LAYER, *rows(k + 1, count)) for k, count in enumerate(counts)]
    N = sum(counts)
    beta = sum(n / N * update.beta for n, update in zip(counts, updates, strict=True))
    P = sum(n / N * update.P for n, update in zip(counts, updates, strict=True))
    found = fedavg(iter(zip(counts, updates, strict=True)))
    np.testing.assert_allclose(found.beta, beta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.P, P, rtol=1e-9, atol=1e-12)


def test_the_average_changes_none_of_its_parts_and_of_no_rows_there_is_none() -> None:
    update = trained(started(), LAYER, *rows(1, 9))
    before = update.beta.copy()
    fedavg([(9, update), (9, update)])
    np.testing.assert_array_equal(update.beta, before)
    with pytest.raises(BadInput, match="no rows"):
        fedavg([])
    with pytest.raises(BadInput, match="no rows"):
        fedavg([(0, update)])


@pytest.mark.parametrize("count", [3, 30])
def test_what_does_not_fit_is_refused(count: int) -> None:
    state, (X, T) = started(), rows(1, count)
    with pytest.raises(BadInput, match="targets"):
        trained(state, LAYER, X, T[:2])
    with pytest.raises(SingularSystem, match="not positive definite"):
        trained(RoundModel(state.beta, -1e3 * np.eye(8)), LAYER, X, T)
