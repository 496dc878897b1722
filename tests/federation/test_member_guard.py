"""The upload guard, and the attack it is against (``support.reconstruction``).

With g = identity the equations of three rows and more leave a rotation open, but not what the rows
span, nor their mean.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Evidence, HiddenLayer, Scaling
from elmgrove.detector.history import fade
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import EVIDENCE_FORMAT
from elmgrove.federation.member import Member, least_forgetting, least_new_rows, rows_until
from elmgrove.storage.sealed import unseal
from support.laws import law_examples
from support.reconstruction import computed, factored, off

CHARTER = Charter("fans", Basis(HiddenLayer(64, 32, activation="tanh", seed=3), 64))
LEAST = least_new_rows(CHARTER.basis)


def rows(seed: int, count: int) -> np.ndarray:
    return 0.3 * np.random.default_rng(seed).normal(size=(count, 64))


@pytest.mark.parametrize("k", [1, 3, 8])
def test_without_the_guard_rows_can_be_computed_from_two_uploads(k: int) -> None:
    member, X = CHARTER.start("fan"), rows(k, k)
    member.detector.learn_many(rows(100, 200))
    before = member.offer(guarded=False)
    member.detector.learn_many(X)
    after = member.offer(guarded=False)
    assert off(X, computed(after.evidence - before.evidence)).max() < 1e-6


def test_with_the_guard_the_attack_finds_nothing() -> None:
    member, X = CHARTER.start("fan"), rows(1, LEAST)
    member.detector.learn_many(rows(100, 200))
    before = member.offer()
    member.detector.learn_many(X[:-1])
    assert member.offer() == before
    member.detector.learn_one(X[-1])
    after = member.offer()
    guesses = computed(after.evidence - before.evidence)
    # No better than guessing rows of the right size and distribution.
    assert off(X, guesses).min() > 0.5 * off(X, rows(7, len(guesses))).min()


@pytest.mark.parametrize("k", [1, 2, 8])
def test_of_a_linear_layer_the_span_and_the_mean_of_the_rows_show(k: int) -> None:
    layer, X = HiddenLayer(64, 32, seed=3), rows(k, k)
    H = layer(X)
    G, Y = factored(Evidence(Basis(layer, 64), H.T @ H, H.T @ X, float(np.square(X).sum()), k))
    inside = X @ np.linalg.pinv(Y) @ Y
    np.testing.assert_allclose(inside, X, atol=1e-6)
    # G − Yα = R·1·b, for H = Xα + 1·b
    ones = (G - Y @ layer.alpha) @ layer.b / (layer.b @ layer.b)
    np.testing.assert_allclose(ones @ Y / k, X.mean(axis=0), atol=1e-6)


SMALL = Charter("fans", Basis(HiddenLayer(3, 2, activation="tanh", seed=5), 3))
ENOUGH = least_new_rows(SMALL.basis)
steps = st.lists(
    st.one_of(
        st.integers(1, ENOUGH + 1),
        st.sampled_from(["offer", "offer", "save", "crash", "depart", "outrank", "observe"]),
    ),
    max_size=40,
)


class Life:
    """One device through its days; saved before each upload, as a session does."""

    def __init__(self) -> None:
        self.member, self.rng = SMALL.start("fan"), np.random.default_rng(1)
        self.uploads = [Evidence.zero(SMALL.basis)]
        self.save()

    def learn(self, count: int) -> None:
        self.member.detector.learn_many(self.rng.normal(size=(count, 3)))

    def observe(self) -> None:
        self.member.detector.observe(self.rng.normal(size=3))

    def save(self) -> None:
        self.saved = self.member.to_bytes()

    def crash(self) -> None:
        self.member = Member.from_bytes(self.saved)

    def depart(self) -> None:
        self.member.depart()

    def outrank(self) -> None:
        self.member.outrank(int(self.rng.integers(100)))

    def offer(self) -> None:
        allowed = self.member.rows_missing() == 0
        offer = self.member.offer()
        self.save()
        assert not allowed or offer is not None
        if offer is not None and offer.evidence != self.uploads[-1]:
            assert allowed
            self.uploads.append(offer.evidence)


@settings(max_examples=law_examples(150), deadline=None)
@given(steps)
def test_no_two_uploads_are_ever_fewer_rows_apart(plan: list[int | str]) -> None:
    life = Life()
    for step in plan:
        if isinstance(step, int):
            life.learn(step)
        else:
            getattr(life, step)()
    for before, after in pairwise(life.uploads):
        assert after.count - before.count >= ENOUGH


# The guard counts raw rows against the numbers of an upload


@pytest.mark.parametrize(
    ("basis", "numbers"),
    [
        (Basis(HiddenLayer(4, 3), 4), 3 * 4 // 2 + 3 * 4),
        (Basis(HiddenLayer(4, 4), 4, score="distance"), 4 * 5 // 2 + 4 + 4),
        (Basis(HiddenLayer(4, 3), 4, score="distance"), 3 * 4 + 4 + 4),
        (Basis(HiddenLayer(4, 8), 40, window=10, score="distance"), 8 * 40 + 40 + 40),
        (Basis(HiddenLayer(4, 40), 40, window=10, score="distance"), 40 * 41 // 2 + 40 + 40),
        (Basis(HiddenLayer(4, 8), 40, window=10), 8 * 9 // 2 + 8 * 40),
    ],
)
def test_as_many_values_of_rows_are_new_as_an_upload_has_numbers(
    basis: Basis, numbers: int
) -> None:
    """With a window as well: neighbouring windows share rows, so each row is counted once."""
    least = least_new_rows(basis)
    assert 4 * (least - 1) < numbers <= 4 * least
    me = Charter("fans", basis).start("me")
    X = np.random.default_rng(1).normal(size=(3 * least, 4))
    me.detector.learn_many(X[: least + basis.window - 2])
    assert me.offer() is None
    assert me.rows_missing() == 1
    me.detector.learn_one(X[least + basis.window - 2])
    first = me.offer()
    sent = unseal(EVIDENCE_FORMAT, first.to_bytes())[1]
    assert sum(array.size for name, array in sent.items() if name != "centre") == numbers
    me.detector.learn_many(X[-least + 1 :])
    assert me.offer() == first
    me.detector.learn_one(X[0])
    assert me.offer() != first


def test_after_gaps_still_as_many_raw_rows_are_new() -> None:
    basis = Basis(HiddenLayer(4, 8), 40, window=10, score="distance")
    me, learned = Charter("fans", basis).start("me"), 0
    for seed in range(100):
        me.detector.interrupt()
        me.detector.learn_many(np.random.default_rng(seed).normal(size=(12, 4)))
        learned += 12
        if me.offer() is not None:
            break
    assert learned >= least_new_rows(basis)


@pytest.mark.parametrize("scaling", [Scaling(), Scaling.standard([100.0] * 4, [2.0] * 4)])
def test_no_row_is_given_away_as_a_centre(scaling: Scaling) -> None:
    basis = Basis(HiddenLayer(4, 4), 4, None, scaling, score="distance")
    me = Charter("fans", basis).start("me")
    X = np.random.default_rng(1).normal(100.0, 2.0, size=(60, 4))
    me.detector.learn_many(X)
    given = me.offer()
    assert given.evidence.close_to(me.detector.evidence)
    centre = given.evidence.centre
    assert not np.isin(centre, X).any()
    # It follows from the sums: another order of rows gives the same.
    other = Charter("fans", basis).start("me")
    other.detector.learn_many(X[::-1])
    np.testing.assert_array_equal(other.contribution().evidence.centre, centre)


# Rows that are forgotten, and how many weigh enough

FADING = Basis(HiddenLayer(8, 4, activation="tanh", seed=3), 8)
FADING_LEAST = least_new_rows(FADING)
FADING_ROWS = np.random.default_rng(0).normal(size=(200, 8))


@pytest.mark.parametrize("forgetting", [1.0, 0.999, 0.9, 0.86])
@pytest.mark.parametrize("weight", [0.0, 2.5, 5.9])
def test_so_many_rows_and_no_fewer_weigh_enough(forgetting: float, weight: float) -> None:
    rows, counted = weight, 0
    while rows < FADING_LEAST - 1e-9:
        rows, counted = forgetting * rows + 1.0, counted + 1
    assert rows_until(FADING_LEAST, weight, forgetting) == counted


@pytest.mark.parametrize("least", [2, 5, 41, 130])
def test_the_forgetting_that_is_named_is_enough_and_little_less_is_not(least: int) -> None:
    basis = Basis(HiddenLayer(1, 1), 1) if least == 2 else Basis(HiddenLayer(least, 1), least)
    enough = least_forgetting(basis)
    needed = least_new_rows(basis)
    assert rows_until(needed, 0.0, enough) < math.inf
    assert rows_until(needed, 0.0, 1.0 - 1.0 / needed) == math.inf


def test_rows_that_were_faded_count_by_their_weight() -> None:
    member = Charter("fans", FADING).start("fan")
    member.detector.learn_many(FADING_ROWS[:100])
    assert member.offer() is not None
    member.detector.learn_many(FADING_ROWS[100 : 99 + FADING_LEAST])
    fade(member.detector, 0.1)
    member.detector.learn_one(FADING_ROWS[-1])
    # One row, and what a tenth of the others are worth.
    assert member.rows_missing() == FADING_LEAST - 1 - math.floor(0.1 * (FADING_LEAST - 1))
