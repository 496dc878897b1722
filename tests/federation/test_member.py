"""A device of a federation: whatever it hears, and in whatever order, ends in one model."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import (
    BadFile,
    BadInput,
    Basis,
    Detector,
    Evidence,
    FixedThreshold,
    HiddenLayer,
    Mismatch,
    NotAdmissible,
)
from elmgrove.algebra.moments import Moments
from elmgrove.detector.state import STATE_FORMAT
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, Departure, Ledger
from elmgrove.federation.member import Member, least_new_rows
from elmgrove.federation.merged import Merged
from elmgrove.storage.sealed import seal, unseal
from support.factories import normal_rows, trained
from support.laws import law_examples

LAYER = HiddenLayer(inputs=5, units=3, activation="sigmoid", seed=4)
NAMES = ["fan-1", "fan-2", "fan-3"]


def member(name: str, learned: int = 20, **settings: Any) -> Member:
    """A device that learned the first rows of its own stream."""
    made = Member(name, Detector(LAYER, **settings), merges=True)
    made.detector.learn_many(normal_rows(sum(name.encode()), 60, 5)[:learned])
    return made


def contribution_from(name: str, learned: int = 20) -> Contribution:
    return member(name, learned).contribution()


def sent(contribution: Contribution) -> Contribution:
    """As it arrives by file."""
    return Contribution.from_bytes(contribution.to_bytes())


def reloaded(member: Member) -> Member:
    return Member.from_bytes(member.to_bytes())


SAID = [contribution_from(name, learned) for name in ("a", "b", "c") for learned in (0, 7, 20)]
some = st.lists(st.sampled_from(SAID), max_size=8)


# Any order, any repetition, any route


@settings(max_examples=law_examples(30), deadline=None)
@given(some, st.data())
def test_order_repetition_and_route_do_not_show(
    heard: list[Contribution], data: st.DataObject
) -> None:
    plain = member("me")
    for contribution in heard:
        plain.receive(contribution)
    other = member("me")
    for contribution in data.draw(st.permutations(heard + heard)):
        other.receive(sent(contribution) if data.draw(st.booleans()) else contribution)
        if data.draw(st.booleans()):
            other = reloaded(other)
    assert other.to_bytes() == plain.to_bytes()
    assert other.detector.model.beta.tobytes() == plain.detector.model.beta.tobytes()


@settings(max_examples=law_examples(30), deadline=None)
@given(some)
def test_the_model_is_that_of_the_newest_of_each_origin(heard: list[Contribution]) -> None:
    me, newest = member("me"), {}
    for contribution in heard:
        me.receive(contribution)
        newest[contribution.origin] = max(
            contribution.epoch, newest.get(contribution.origin, contribution.epoch)
        )
    central = member("me").detector
    for origin, epoch in newest.items():
        central.learn_many(normal_rows(sum(origin.encode()), 60, 5)[:epoch])
    np.testing.assert_allclose(me.detector.model.beta, central.model.beta, rtol=1e-9, atol=1e-12)


@settings(max_examples=law_examples(25), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 9), st.booleans()),
        max_size=15,
    )
)
def test_devices_that_exchange_in_any_way_equal_one_that_learned_all_rows(
    rounds: list[tuple[int, int, int, bool]],
) -> None:
    """Each step: one device learns some rows, then gives away what it has, by file or not."""
    members = [member(name, 5) for name in NAMES]
    seen = [normal_rows(sum(name.encode()), 60, 5)[:5] for name in NAMES]
    for step, (giver, taker, count, by_file) in enumerate(rounds):
        fresh = normal_rows(1000 + step, count, 5)
        members[giver].detector.learn_many(fresh)
        seen.append(fresh)
        gift = members[giver].contribution()
        if giver != taker:
            members[taker].receive(sent(gift) if by_file else gift)
    for giver in members:
        for taker in members:
            if giver is not taker:
                taker.receive(giver.contribution())
    central = trained(Detector(LAYER), np.vstack(seen))
    for one in members:
        np.testing.assert_allclose(
            one.detector.model.beta, central.model.beta, rtol=1e-9, atol=1e-12
        )
        assert one.detector.model.total.count == len(np.vstack(seen))


def test_it_says_whether_there_was_news() -> None:
    me = member("me")
    told = [me.receive(contribution_from("a", learned)) for learned in (7, 7, 3, 8)]
    assert told == [True, False, False, True]


# Forgetting


@settings(max_examples=law_examples(30), deadline=None)
@given(some, st.sampled_from(["a", "b", "c"]))
def test_a_device_that_is_forgotten_was_never_there(heard: list[Contribution], origin: str) -> None:
    me, never = member("me"), member("me")
    for contribution in heard:
        me.receive(contribution)
        if contribution.origin != origin:
            never.receive(contribution)
    assert me.forget(origin) == any(contribution.origin == origin for contribution in heard)
    assert not me.forget(origin)
    assert me.to_bytes() == never.to_bytes()
    assert me.detector.model.beta.tobytes() == never.detector.model.beta.tobytes()
    assert me.detector.threshold == never.detector.threshold


def test_a_watching_device_forgets_exactly_too() -> None:
    me, never = (member("me", threshold=FixedThreshold(9.0)) for _ in range(2))
    me.receive(contribution_from("a"))
    for row in normal_rows(5, 50, 5):
        me.detector.observe(row)
        never.detector.observe(row)
    me.forget("a")
    assert me.detector.received is None
    assert me.detector.evidence == never.detector.evidence
    assert me.detector.model.beta.tobytes() == never.detector.model.beta.tobytes()
    assert me.contribution().to_bytes() == never.contribution().to_bytes()


# Refused


def zeroed(contribution: Contribution) -> Contribution:
    evidence = contribution.evidence
    lie = Evidence(evidence.basis, evidence.U, evidence.V, 0.0, evidence.count)
    return Contribution(contribution.origin, contribution.epoch, (lie,))


def of_layer(layer: HiddenLayer, **settings: Any) -> Contribution:
    return Member("x", Detector(layer, **settings), merges=True).contribution()


REFUSED = {
    "own name": (contribution_from("me", 30), BadInput, "own evidence"),
    "another seed": (
        of_layer(HiddenLayer(5, 3, "sigmoid", seed=5)),
        Mismatch,
        r"layer\.seed: 4 here, 5 there",
    ),
    "names": (of_layer(LAYER, features=list("vwxyz")), Mismatch, "features: None here"),
    "a lie": (zeroed(contribution_from("x", 30)), NotAdmissible, "'x'.*energy"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("before", [(), ("x", "y")], ids=["alone", "with others"])
def test_what_is_refused_changes_nothing(name: str, before: tuple[str, ...]) -> None:
    contribution, error, text = REFUSED[name]
    me = member("me")
    for origin in before:
        me.receive(contribution_from(origin))
    state, beta = me.to_bytes(), me.detector.model.beta
    with pytest.raises(error, match=text):
        me.receive(contribution)
    assert me.to_bytes() == state
    assert me.detector.model.beta is beta


# Giving away

LEAST = least_new_rows(Detector(LAYER).basis)


def test_an_offer_is_newer_than_what_it_outranks_and_says_the_same() -> None:
    me = member("me", LEAST)
    first = me.offer()
    me.outrank(first.epoch - 1)
    assert me.offer() == first
    me.outrank(100)
    assert me.offer() == Contribution("me", 101, (first.evidence,))
    me.outrank(50)
    assert me.offer() == Contribution("me", 101, (first.evidence,))
    assert reloaded(me).offer() == Contribution("me", 101, (first.evidence,))
    me.detector.learn_many(normal_rows(1, LEAST, 5))
    assert me.contribution().epoch == 101 + LEAST


@pytest.mark.parametrize("learned", [0, LEAST, LEAST + 1])
def test_a_departure_follows_what_was_offered_and_is_followed_by_what_is(learned: int) -> None:
    me = member("me", learned)
    offered = me.offer()
    departure = me.depart()
    assert offered is None or departure.epoch > offered.epoch
    me.detector.learn_many(normal_rows(1, LEAST, 5))
    again = me.offer()
    assert again.epoch > departure.epoch
    assert me.depart().epoch > again.epoch


def test_an_epoch_that_nothing_can_get_past_is_refused_and_changes_nothing() -> None:
    me = member("me")
    state = me.to_bytes()
    with pytest.raises(BadInput, match="another name"):
        me.outrank(2**63 - 1)
    # A server takes epochs below 2⁶²: who got past one of the last could not go on.
    (refused,) = me.receive_all([Departure("me", 2**61)])
    assert isinstance(refused, BadInput)
    assert me.to_bytes() == state


def test_no_epoch_that_is_believed_burns_a_name() -> None:
    me = member("me")
    for _ in range(3):
        me.outrank(2**61 - 1)
        assert me.depart().epoch < 2**62


# Meeting


def test_what_does_not_fit_is_left_out_with_the_reason() -> None:
    me = member("me")
    refused = me.receive_all(
        [
            contribution_from("a"),
            *(REFUSED[name][0] for name in ("names", "a lie")),
            contribution_from("b"),
        ]
    )
    assert [type(error) for error in refused] == [Mismatch, NotAdmissible]
    assert [held.origin for held in me.ledger] == ["a", "b"]


def test_with_a_choice_the_model_rests_on_those_alone() -> None:
    me = member("me")
    me.receive_all([contribution_from("a"), contribution_from("b"), Departure("d", 1)])
    me.receive_all([contribution_from("c")], only=["b", "c"])
    assert me.ledger.entries == [contribution_from("b"), contribution_from("c"), Departure("d", 1)]
    me.receive_all([], only=[])
    assert me.detector.received is None


def test_another_version_of_oneself_is_recognized_and_outranked() -> None:
    me = member("me", LEAST)
    mine = me.offer()
    me.receive_all([mine])
    assert me.shared == mine
    me.receive_all([contribution_from("me", LEAST + 30)])
    assert me.shared == Contribution("me", LEAST + 31, (mine.evidence,))
    me.receive_all(
        [Contribution("me", LEAST + 31, (contribution_from("a").evidence,)), Departure("me", 3)]
    )
    assert me.shared == Contribution("me", LEAST + 32, (mine.evidence,))
    assert me.detector.received is None


# Resting on a sum


def summed(*names: str) -> Merged:
    parts = [contribution_from(name).evidence for name in names]
    zero = Evidence.zero(member("x").detector.basis)
    return Merged("fans", 5, len(parts), (Evidence.sum([zero, *parts]),))


def test_a_sum_takes_the_place_of_all_that_was_heard() -> None:
    me, apart = member("me"), member("me")
    me.receive_all([contribution_from("z"), Departure("y", 3)])
    me.set_prior(summed("a", "b"))
    apart.receive_all([contribution_from("a"), contribution_from("b")])
    np.testing.assert_allclose(me.detector.model.beta, apart.detector.model.beta, rtol=1e-9)
    assert me.ledger.entries == [Departure("y", 3)]
    assert me.contribution() == member("me").contribution()
    again = reloaded(me)
    assert again.merged == me.merged
    assert again.to_bytes() == me.to_bytes()
    assert again.detector.model.beta.tobytes() == me.detector.model.beta.tobytes()


def test_beside_a_sum_nobody_is_heard_until_it_is_gone() -> None:
    me = member("me")
    me.set_prior(summed("a", "b"))
    state = me.to_bytes()
    for hear in (
        lambda: me.receive(contribution_from("a")),
        lambda: me.receive_all([contribution_from("a")]),
    ):
        with pytest.raises(BadInput, match="the same rows"):
            hear()
    assert me.to_bytes() == state
    me.set_prior(None)
    assert me.detector.received is None
    assert me.receive(contribution_from("a"))
    with pytest.raises(BadInput, match="not both"):
        Member("me", Detector(LAYER), Ledger([contribution_from("a")]), summed("b"), merges=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("lead", wrong) for wrong in ("x", -1, 1.5, 0, None, 2**63)),
        *(("published", wrong) for wrong in (None, {}, {"learned": "x"}, {"learned": -1})),
        *(("left", wrong) for wrong in ([], [["a"]], [["me", 3]], [["a", -1]])),
        *(("merged", wrong) for wrong in (5, {})),
    ],
)
def test_a_state_with_a_wrong_part_is_refused(name: str, value: Any) -> None:
    me = member("me", LEAST)
    me.offer()
    me.depart()
    fields, arrays = unseal(STATE_FORMAT, me.to_bytes())
    if name == "published" and value:
        value = {**fields["published"], **value}
    with pytest.raises(BadFile, match="not as a state should be"):
        Member.from_bytes(seal(STATE_FORMAT, {**fields, name: value}, arrays))


# Made by hand


def test_a_ledger_that_is_given_is_used_and_knows_all_evidence_but_ones_own() -> None:
    ledger = Ledger([contribution_from("a")])
    made = Member("me", Detector(LAYER), ledger, merges=True)
    assert made.ledger is ledger
    assert made.detector.received == contribution_from("a").evidence
    with pytest.raises(BadInput, match="itself"):
        Member("a", Detector(LAYER), ledger, merges=True)
    # Evidence that no ledger knows would be lost when the state is saved.
    detector = Detector(LAYER)
    detector.merge(contribution_from("a").evidence)
    with pytest.raises(BadInput, match="ledger"):
        Member("me", detector, merges=True)


# Moments that no rows can have are refused, with the reason, by all who are given them

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
