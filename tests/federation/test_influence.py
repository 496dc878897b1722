"""What counts of a device is bounded, and is undone with it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Evidence, HiddenLayer, Scaling
from elmgrove.algebra.moments import zero_evidence
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import StandingGroups
from elmgrove.federation.member import Member
from elmgrove.federation.others import StandingOthers
from elmgrove.federation.sums import BoundedSum, bounded, weight_in, why_less
from elmgrove.federation.terms import UNBOUNDED, Terms
from support.factories import cloud, evidence_of
from support.laws import law_examples
from support.moments import moments_of

SCALING = Scaling.standard([0.0] * 3, [1.0] * 3)
DISTANT = Basis(HiddenLayer(3, 3), 3, scaling=SCALING, score="distance")
LOSS = Basis(HiddenLayer(3, 2, activation="tanh", seed=1), 3, scaling=SCALING)
NAMES = "abcde"


def evidence(seed: int, rows: float, size: float = 1.0, basis: Basis = DISTANT) -> Evidence:
    """What a device states that claims so many rows, so far from where they should be."""
    X = size * np.random.default_rng(seed).normal(size=(20, 3))
    made = moments_of(basis, X) if basis.score == "distance" else evidence_of(X, basis)
    return made.weighted(rows / 20.0)


def claim_of(name: str, rows: float, size: float = 1.0, basis: Basis = DISTANT) -> Contribution:
    return Contribution(name, int(rows), (evidence(ord(name), rows, size, basis),))


def counted(*rows: float, terms: Terms) -> list[float]:
    """The rows that devices with so many count as."""
    return [weight_in(terms, evidence(1, count)) * count for count in rows]


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
    honest = evidence(1, 500, basis=basis)
    huge = replace(honest, U=honest.U * 1e8)
    assert huge.admissible()
    assert honest.mean_square == pytest.approx(honest.energy / 1500)
    assert huge.mean_square > 1e6


def test_without_a_scaling_nobody_knows_what_is_loud() -> None:
    plain = replace(DISTANT, scaling=Scaling())
    assert weight_in(Terms(), evidence(1, 500, 1e9, plain)) == 1.0


def test_a_reason_says_what_counts() -> None:
    assert why_less(Terms(), evidence(1, 550)) == ""
    said = why_less(Terms(most_rows=1000), evidence(1, 5000, 1e4))
    assert said.startswith("at most 1,000 rows of a device count; a column's mean square is ")


# Sums

steps = st.lists(
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
@given(changes=steps)
def test_however_devices_came_and_went_those_that_are_there_give_the_same_sum(
    terms: Terms, changes: list[tuple[str, float | None, float]]
) -> None:
    total, there = BoundedSum(DISTANT, terms), dict[str, Evidence]()
    for seed, (name, rows, size) in enumerate(changes):
        before = there.pop(name, None)
        if rows is not None:
            there[name] = evidence(seed, rows, size)
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
