"""A running sum is the sum of what is in it, however it came about."""

import os
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Evidence, HiddenLayer, Scaling
from elmgrove.algebra import exact
from elmgrove.algebra.moments import Moments, zero_evidence
from elmgrove.federation.aggregation import StandingOthers
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import StandingGroups
from elmgrove.federation.member import Member
from elmgrove.federation.policy import UNBOUNDED, Terms
from elmgrove.federation.sums import BoundedSum, RunningSum, bounded, weight_in, why_less
from support.factories import cloud, evidence_of, normal_rows
from support.laws import law_examples
from support.moments import distance_basis, moments_of

BASIS = Basis(HiddenLayer(3, 2, seed=1), 3)
EXAMPLES = int(os.environ.get("ELMGROVE_TEST_SUMS", "5"))


def evidence(seed: int, size: float = 1.0) -> Evidence:
    return evidence_of(size * normal_rows(seed, 5, 3), BASIS)


def require_equal(running: RunningSum, parts: list[Evidence], tolerance: float = 1e-12) -> None:
    assert running.devices == len(parts)
    expected = Evidence.sum(parts)
    assert running.evidence().close_to(expected, tolerance)
    assert running.evidence().resolution == expected.resolution


def test_a_thousand_replacements_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where sums of single numbers would have drifted: the others are far smaller."""
    # So that bins overflow on the way, which else takes so many steps as no test has.
    monkeypatch.setattr(exact, "_MOST_ADDENDS", 100)
    running, quiet, loud = RunningSum(BASIS), evidence(1), [evidence(n, size=1e3) for n in (2, 3)]
    naive = quiet.U[0, 0] + loud[0].U[0, 0]
    running.add(quiet)
    running.add(loud[0])
    for step in range(1000):
        old, new = loud[step % 2], loud[(step + 1) % 2]
        naive = naive - old.U[0, 0] + new.U[0, 0]
        running.change(old, new)
    require_equal(running, [quiet, loud[0]])
    running.remove(loud[0])
    assert running.evidence() == quiet
    assert abs(naive - loud[0].U[0, 0] - quiet.U[0, 0]) > 1e-12 * quiet.U[0, 0]


def test_who_has_no_rows_does_not_decide_about_which_centre_others_are_added_up() -> None:
    """About 0, rows a billion deviations away would be nothing but rounding."""
    basis = distance_basis(3)
    theirs = moments_of(basis, 1e9 + np.random.default_rng(0).normal(size=(50, 3)))
    nothing = zero_evidence(basis)
    running = RunningSum(basis)
    running.add(nothing)
    running.add(theirs)
    assert running.evidence() == theirs
    running.remove(nothing)
    assert running.evidence() == theirs


# Moments, about centres that differ


def by_distance(units: int, scaling: str = "none") -> Basis:
    rows = np.random.default_rng(0).normal(size=(9, 3))
    return Basis.fitted(rows, None, scaling=scaling, units=units, score="distance", seed=1)


#: All products, mixtures of inputs, and rows that are scaled.
DISTANCES = [by_distance(3), by_distance(2), by_distance(3, "standard"), by_distance(2, "standard")]


def moments(basis: Basis, X: np.ndarray, dtype: type = np.float64) -> Evidence:
    return moments_of(basis, basis.scaling(X), dtype)


def device(seed: int, size: float, offset: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return size * (rng.normal(size=(5, 3)) @ rng.normal(size=(3, 3)) + offset)


def fresh(basis: Basis, parts: list[Evidence]) -> RunningSum:
    running = RunningSum(basis)
    for part in parts:
        running.add(part)
    return running


def require_same(one: RunningSum, other: RunningSum) -> None:
    """Asserts that two sums are equal column by column, each in its own size."""
    assert one.devices == other.devices
    a, b = one.evidence(), other.evidence()
    if a.count == 0:
        assert a == b
        return
    np.testing.assert_array_equal(a.centre, b.centre)
    assert (a.count, a.resolution) == (b.count, b.resolution)
    np.testing.assert_allclose(a.e, b.e, rtol=1e-12)
    root = np.sqrt(b.e)
    assert (np.abs(a.s - b.s) <= 1e-12 * np.sqrt(b.count) * root).all()
    weights = np.eye(3) if a.C.shape == (3, 3) else np.abs(a.basis.layer.alpha)
    assert (np.abs(a.C - b.C) <= 1e-12 * np.outer(root @ weights, root)).all()
    assert a.admissible()


def test_a_column_that_never_moved_stays_still_in_the_sum() -> None:
    basis, rows = by_distance(3), device(1, 1.0, 3.0)
    constant = [np.column_stack([rows[:, :2] + n, np.full(5, 0.1)]) for n in range(3)]
    other = np.column_stack([rows[:, :2], np.full(5, 1 / 3)])
    parts = [moments(basis, X) for X in (other, *constant)]
    running = fresh(basis, parts)
    for left in (running.evidence(parts[0]), fresh(basis, parts[1:]).evidence()):
        assert left.e[2] == left.s[2] == 0.0
        assert not left.C[2].any()
        assert left.centre[2] == 0.1
        assert left.admissible()
    # With it, the two values differ.
    np.testing.assert_allclose(running.evidence().e[2], 15 * 5 / 20 * (0.1 - 1 / 3) ** 2, rtol=0.5)


# Whatever comes and goes: compared with exact rational numbers

SIZES = [1.0, 1e-30, 1e-3, 1e20, 1e30, 1e60]
histories = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from([0.0, *SIZES]),
        st.lists(st.sampled_from(SIZES[:5]), min_size=3, max_size=3),
        st.sampled_from([0.0, 1.0, 1e9]),
    ),
    max_size=10,
)
Exact = np.ndarray


def rational(values: object) -> Exact:
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values, np.float64))


def exact_moments(parts: list[Moments], centre: np.ndarray) -> tuple[Exact, Exact, Exact, Fraction]:
    """C, s, e and the count about a centre, of what devices contributed about their own."""
    basis = parts[0].basis
    A = rational(np.eye(3) if basis.layer.units == 3 else basis.hidden.alpha)
    C, s, e, count = rational(np.zeros((A.shape[1], 3))), *rational(np.zeros((2, 3))), Fraction(0)
    for part in parts:
        delta, N = rational(part.centre) - rational(centre), Fraction(part.count)
        own = rational(part.s)
        C = C + rational(part.C) + np.outer(delta @ A, own)
        C = C + np.outer((own + N * delta) @ A, delta)
        e = e + rational(part.e) + delta * (own + own + N * delta)
        s, count = s + own + N * delta, count + N
    return C, s, e, count


def require_exact_moments(given: Moments, parts: list[Moments]) -> None:
    """Asserts that each sum is within 1e-12 of what the squares of the true rest allow."""
    C, s, e, count = exact_moments(parts, given.centre)
    assert given.count == pytest.approx(float(count), rel=1e-15)
    root = np.sqrt(e.astype(float))
    weights = np.eye(3) if given.C.shape == (3, 3) else np.abs(given.basis.hidden.alpha)
    for found, true, size in (
        (given.e, e, root**2),
        (given.s, s, np.sqrt(float(count)) * root),
        (given.C, C, np.outer(root @ weights, root)),
    ):
        assert (np.abs((rational(found) - true).astype(float)) <= 1e-12 * size).all()
    assert given.admissible()


@pytest.mark.parametrize("basis", DISTANCES)
@settings(max_examples=EXAMPLES, deadline=None)
@given(history=histories)
def test_each_sum_of_moments_is_right_whoever_is_huge_and_whoever_left(
    basis: Basis, history: list[tuple[int, float, list[float], float]]
) -> None:
    """In any or all columns, and far from 0 or from the others."""
    running, there = RunningSum(basis), dict[int, Moments]()
    for step, (name, size, columns, offset) in enumerate(history):
        before = there.pop(name, None)
        if size:
            there[name] = moments_of(basis, device(step, size, offset) * columns)
        running.change(before, there.get(name))
        require_same(running, fresh(basis, list(there.values())[::-1]))
    for name, part in there.items():
        rest = [other for its, other in there.items() if its != name]
        given = running.evidence(part)
        assert given == fresh(basis, rest).evidence()
        if rest:
            require_exact_moments(given, rest)


@settings(max_examples=EXAMPLES, deadline=None)
@given(history=histories)
def test_each_sum_for_a_loss_is_right_whoever_is_huge_and_whoever_left(
    history: list[tuple[int, float, list[float], float]],
) -> None:
    running, there = RunningSum(BASIS), dict[int, Evidence]()
    for step, (name, size, columns, _) in enumerate(history):
        before = there.pop(name, None)
        if size:
            there[name] = evidence_of(device(step, size, 1.0) * columns, BASIS)
        running.change(before, there.get(name))
    for name, part in there.items():
        rest = [other for its, other in there.items() if its != name]
        given = running.evidence(part)
        for sums in ("U", "V", "energy", "count"):
            found, *others = (np.atleast_1d(getattr(one, sums)) for one in (given, *rest))
            true = sum(map(rational, others), rational(np.zeros_like(found)))
            np.testing.assert_allclose(found, true.astype(float), rtol=1e-15)


@pytest.mark.parametrize("size", [1e20, 1e30, 1e60])
def test_something_huge_comes_and_goes_without_a_trace(size: float) -> None:
    """Not even in what is held: a sum that grew by each one would be large in the end."""
    for basis, make in (
        (BASIS, partial(evidence_of, basis=BASIS)),
        (DISTANCES[0], partial(moments_of, DISTANCES[0])),
    ):
        running = fresh(basis, [make(device(n, 1.0, 1.0)) for n in range(3)])
        before, held = running.evidence(), running.nbytes
        for step in range(20):
            huge = make(device(step, size, 1.0))
            running.add(huge)
            assert running.evidence(huge) == before
            running.remove(huge)
        assert running.evidence() == before
        assert running.nbytes == held


# What counts of a device is bounded, and is undone with it

SCALING = Scaling.standard([0.0] * 3, [1.0] * 3)
DISTANT = Basis(HiddenLayer(3, 3), 3, scaling=SCALING, score="distance")
LOSS = Basis(HiddenLayer(3, 2, activation="tanh", seed=1), 3, scaling=SCALING)
NAMES = "abcde"


def claimed(seed: int, rows: float, size: float = 1.0, basis: Basis = DISTANT) -> Evidence:
    """What a device states that claims so many rows, so far from where they should be."""
    X = size * np.random.default_rng(seed).normal(size=(20, 3))
    made = moments_of(basis, X) if basis.score == "distance" else evidence_of(X, basis)
    return made.weighted(rows / 20.0)


def claim_of(name: str, rows: float, size: float = 1.0, basis: Basis = DISTANT) -> Contribution:
    return Contribution(name, int(rows), (claimed(ord(name), rows, size, basis),))


def counted(*rows: float, terms: Terms) -> list[float]:
    """The rows that devices with so many count as."""
    return [weight_in(terms, claimed(1, count)) * count for count in rows]


# The rule


def test_a_cap_is_what_was_stated() -> None:
    assert counted(100, 3000, 5000, terms=Terms(most_rows=1000)) == [100, 1000, 1000]
    assert counted(1e200, 1e200, terms=Terms(most_rows=7)) == pytest.approx([7, 7])
    assert counted(1, 1, 1, 1e200, terms=UNBOUNDED) == [1, 1, 1, 1e200]
    assert counted(550, 550e6, terms=Terms()) == [550, 1e6]


@pytest.mark.parametrize("basis", [DISTANT, LOSS], ids=["distance", "loss"])
def test_rows_that_are_too_loud_count_with_the_energy_of_others(basis: Basis) -> None:
    held = [claim_of(name, 500, basis=basis) for name in "abc"] + [claim_of("d", 500, 1e4, basis)]
    *honest, loud = bounded(Terms(), held)
    assert honest == held[:3]
    assert loud.evidence.energy / 3 <= 500.0 * (1.0 + 1e-9)
    assert loud.evidence.energy / 3 >= 100.0


def test_a_centre_hides_no_energy() -> None:
    far = moments_of(DISTANT, np.full((20, 3), 1e4))
    about_mean = far.about(np.full(3, 1e4))
    assert about_mean.e.max() == 0.0
    assert about_mean.mean_square == pytest.approx(1e8) == far.mean_square


def test_hidden_outputs_that_no_quiet_rows_have_are_loud() -> None:
    """With U alone one could claim that nothing can be told from hidden outputs any more."""
    basis = replace(LOSS, layer=HiddenLayer(3, 2, activation="relu", seed=1))
    honest = claimed(1, 500, basis=basis)
    huge = replace(honest, U=honest.U * 1e8)
    assert huge.admissible()
    assert honest.mean_square == pytest.approx(honest.energy / 1500)
    assert huge.mean_square > 1e6


def test_without_a_scaling_nobody_knows_what_is_loud() -> None:
    plain = replace(DISTANT, scaling=Scaling())
    assert weight_in(Terms(), claimed(1, 500, 1e9, plain)) == 1.0


def test_a_reason_says_what_counts() -> None:
    assert why_less(Terms(), claimed(1, 550)) == ""
    said = why_less(Terms(most_rows=1000), claimed(1, 5000, 1e4))
    assert said.startswith("at most 1,000 rows of a device count; a column's mean square is ")


# Sums

comings = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from([None, 30.0, 500.0, 6000.0, 1e9, 1e30]),
        st.sampled_from([1.0, 1e5]),
    ),
    max_size=20,
)
TERMS = [Terms(), Terms(most_rows=1e4), UNBOUNDED]


@pytest.mark.parametrize("terms", TERMS, ids=["usual", "strict", "unbounded"])
@settings(max_examples=law_examples(40), deadline=None)
@given(changes=comings)
def test_however_devices_came_and_went_those_that_are_there_give_the_same_sum(
    terms: Terms, changes: list[tuple[str, float | None, float]]
) -> None:
    total, there = BoundedSum(DISTANT, terms), dict[str, Evidence]()
    for seed, (name, rows, size) in enumerate(changes):
        before = there.pop(name, None)
        if rows is not None:
            there[name] = claimed(seed, rows, size)
        total.change(name, before, there.get(name))
    once = BoundedSum(DISTANT, terms)
    for name in sorted(there, reverse=True):
        once.change(name, None, there[name])
    assert total.evidence() == once.evidence()
    held = [Contribution(name, 1, (one,)) for name, one in there.items()]
    parts = [one.evidence for one in bounded(terms, held)]
    expected = Evidence.sum(parts) if parts else zero_evidence(DISTANT)
    assert total.evidence().close_to(expected, 1e-12)
    assert total.devices == len(there)
    for name, one in there.items():
        rest = BoundedSum(DISTANT, terms)
        for other in there.keys() - {name}:
            rest.change(other, None, there[other])
        assert total.evidence(one) == rest.evidence()


# Where it applies


PLAIN = replace(DISTANT, layer=HiddenLayer(6, 6), outputs=6, scaling=Scaling())
#: Four devices of one kind, and one with a million times their rows in sixteen patterns.
CROWD = [
    *(Contribution(f"fan-{n}", 1, (moments_of(PLAIN, cloud(0, n)),)) for n in range(4)),
    Contribution(
        "liar", 1, tuple(moments_of(PLAIN, cloud(0, 10 + n)).weighted(1e6) for n in range(16))
    ),
]


def test_in_a_group_a_device_is_one_however_many_patterns_it_has() -> None:
    for terms, most in ((Terms(most_rows=6000), 3 * 600 + 10 * 600), (UNBOUNDED, 2e10)):
        standing = StandingGroups(PLAIN, 0.0, terms=terms)
        for one in CROWD:
            standing.take(one)
        (told,) = standing.returned("fan-0")
        assert most / 4 < told.count <= most * (1.0 + 1e-9)
        standing.leave("liar")
        (told,) = standing.returned("fan-0")
        assert told.count == 3 * 600


def test_a_group_that_is_asked_is_bounded_as_well() -> None:
    standing = StandingOthers(Charter("fans", PLAIN, 0.0, terms=Terms(most_rows=6000)))
    for one in CROWD:
        standing.take(replace(one, threshold=3.0))
    (told,) = standing.others(1, "fan-0").parts
    assert 3 * 600 < told.count <= (3 * 600 + 10 * 600) * (1.0 + 1e-9)


def test_one_model_of_devices_that_are_known_by_name_is_bounded_by_the_usual_terms() -> None:
    member = Charter("fans", DISTANT, merged=True).start("own")
    member.receive_all(
        [claim_of("a", 500), claim_of("b", 500), claim_of("c", 500), claim_of("d", 5e8)]
    )
    assert 1500 < member.detector.received.count <= 1500 + 1e6
    again = Member.from_bytes(member.to_bytes())
    assert again.detector.received == member.detector.received
