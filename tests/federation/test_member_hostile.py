"""Moments that no rows can have are refused, with the reason, by all who are given them."""

from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, Detector, Evidence, HiddenLayer, NotAdmissible
from elmgrove.algebra.moments import Moments
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from support.factories import normal_rows, trained

BY_DISTANCE = Basis(HiddenLayer(inputs=5, units=3, seed=4), 5, score="distance")


def huge_moments(centre: float = 0.0) -> Evidence:
    e = np.full(5, 0.0 if centre else 1e308)
    return Moments(BY_DISTANCE, np.zeros((3, 5)), np.zeros(5), e, 10, np.full(5, centre))


def forged(**changes: Any) -> Contribution:
    """Moments of thirty rows with other sums in the place of some."""
    detector = trained(Detector.for_basis(BY_DISTANCE), normal_rows(3, 30, 5))
    honest = detector.evidence
    made = {name: getattr(honest, name) for name in ("C", "s", "e", "count", "centre")}
    made |= {name: change(made[name]) for name, change in changes.items()}
    return Contribution("liar", 30, (Moments(BY_DISTANCE, **made),))


FORGED = {
    "squares that are negative": ({"e": np.negative}, "e has a negative entry"),
    "a sum beyond its squares": ({"s": lambda s: s + 1e3}, "s is larger than 30 rows"),
    "fewer rows than the sums need": ({"count": lambda count: 1e-3}, "s is larger than"),
    "no rows": ({"count": lambda count: 0.0}, "s is larger than"),
    "a negative number of rows": ({"count": np.negative}, "can't be negative"),
    "products beyond the squares": ({"C": lambda C: 1e4 * C}, "larger than the squares allow"),
    "products of nothing": ({"C": np.negative}, "not positive semidefinite"),
    "a column explained too well": ({"C": lambda C: 1.2 * C}, "explain more of a column"),
    "no number": ({"C": lambda C: C * np.nan}, "not finite"),
    "nowhere": ({"centre": lambda c: c + np.inf}, "the centre is not finite"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_moments_are_refused_with_the_reason(name: str) -> None:
    """By a device, by what an exchange asks, and in a sum; nothing is changed."""
    changes, reason = FORGED[name]
    lie = forged(**changes)
    me = Member("me", Detector.for_basis(BY_DISTANCE), merges=True)
    me.detector.learn_many(normal_rows(4, 30, 5))
    me.receive(forged())
    state = me.to_bytes()
    with pytest.raises(NotAdmissible, match=f"the evidence of 'liar': .*{reason}"):
        me.receive(Contribution("liar", 31, lie.parts))
    with pytest.raises(NotAdmissible, match=f"the evidence of 'liar': .*{reason}"):
        Charter("fans", BY_DISTANCE).require(lie)
    with pytest.raises(NotAdmissible, match=reason):
        me.set_prior(Merged("fans", 1, 1, lie.parts))
    assert me.to_bytes() == state


HUGE = {
    "by loss": [
        Evidence(
            Basis(HiddenLayer(5, 3, seed=4), 5), np.eye(3) * 8e307, np.zeros((3, 5)), 1e308, 10
        )
    ]
    * 2,
    "by distance": [huge_moments()] * 2,
    "about two centres": [huge_moments(1e160), huge_moments(-1e160)],
}


@pytest.mark.parametrize("name", HUGE)
def test_a_contribution_that_breaks_the_sum_changes_nothing(name: str) -> None:
    """Each is finite and passes alone, the two together do not."""
    one, other = HUGE[name]
    me = Member("me", Detector.for_basis(one.basis), merges=True)
    me.receive(Contribution("a", 10, (one,)))
    state = me.to_bytes()
    with np.errstate(over="ignore"), pytest.raises(NotAdmissible):
        me.receive(Contribution("b", 10, (other,)))
    assert me.to_bytes() == state
    assert [held.origin for held in me.ledger] == ["a"]


def test_moments_too_large_or_too_far_off_to_be_added_up_are_refused_by_a_charter() -> None:
    charter = Charter("fans", BY_DISTANCE)
    charter.require(forged())
    charter.require(Contribution("a", 10, (huge_moments(1e99),)))
    for huge in (huge_moments(), huge_moments(1e100), huge_moments(-1e300)):
        with pytest.raises(NotAdmissible, match="can't be added up"):
            charter.require(Contribution("a", 10, (huge,)))
