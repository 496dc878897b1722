"""Alike or not: what sums say of two machines before they are merged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Detector, Evidence, FalseAlarmRate, Scaling
from elmgrove.algebra.moments import Moments
from elmgrove.federation.charter import Charter
from elmgrove.federation.comparison import (
    Comparison,
    compare_each,
    compare_used,
    notable,
    profile_of,
    unlike_all,
    unlike_used,
)
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from support.factories import standing_others, trained, trained_member
from support.laws import law_examples
from support.places import GOLDEN

NAMES = ("flow", "temp", "volt", "amp")
MIXING = np.array([[3.0, 2.0, 0.0, 0.5], [0.0, 0.1, 0.2, 0.0]])


def pump(seed: int, count: int, level: tuple[float, ...] = (0.0,) * 4) -> np.ndarray:
    """Rows of a pump with one load behind all but volt."""
    rng = np.random.default_rng(seed)
    noise = 0.1 * rng.normal(size=(count, 4))
    return (
        np.array([122.0, 60.0, 230.0, 4.0]) + level + rng.normal(size=(count, 2)) @ MIXING + noise
    )


BASIS = Basis.fitted(pump(0, 1000), NAMES, scaling="standard")


def evidence(rows: np.ndarray, basis: Basis = BASIS) -> Evidence:
    detector = trained(Detector.for_basis(basis), rows)
    return detector.evidence


def beside(own: np.ndarray, theirs: np.ndarray, basis: Basis = BASIS) -> Comparison:
    [found] = compare_each(evidence(own, basis), {"pump-3": evidence(theirs, basis)})
    return found


@pytest.mark.parametrize("window", [1, 10])
@pytest.mark.parametrize("scaling", ["none", "minmax", "standard"])
def test_levels_and_deviations_are_told_in_the_data_s_units(window: int, scaling: str) -> None:
    basis = Basis.fitted(pump(0, 1000), NAMES, scaling=scaling, window=window)
    found = beside(pump(1, 500), pump(2, 500, (-90.0, 0.0, 0.0, 0.0)), basis)
    assert not found.alike
    flow = found.differences[0]
    assert flow.feature == "flow"
    assert (flow.level, flow.their_level) == (pytest.approx(122, abs=1), pytest.approx(32, abs=1))
    assert flow.deviation == pytest.approx(3.0, rel=0.1)
    assert flow.apart == pytest.approx(30, rel=0.15)
    assert flow.times == pytest.approx(1.0, rel=0.2)
    assert found.finding.startswith("flow is ")
    assert " deviations from pump-3's" in found.finding


def test_what_a_user_is_told() -> None:
    found = beside(pump(1, 500), pump(2, 500, (-90.0, -50.0, 3.0, 8.0)))
    warning = found.warning(BASIS, merges=False)
    assert warning.startswith("flow is ")
    assert warning.endswith(
        " (and 1 more): another kind of machine? use own units, or a federation of its own"
    )
    assert found.warning(BASIS, merges=True) == warning + (
        "; they will be one model, and what is normal for either will be normal for both"
    )


@pytest.mark.parametrize("window", [1, 10])
def test_rows_of_one_machine_are_alike(window: int) -> None:
    basis = Basis.fitted(pump(0, 1000), NAMES, scaling="standard", window=window)
    found = beside(pump(1, 500), pump(2, 300), basis)
    assert found.alike
    assert not found.untold
    assert (found.finding, found.warning(basis, merges=True)) == ("", "")


def test_a_machine_too_hot_for_its_load_is_not_alike() -> None:
    """Its temperature is not unusual by itself."""
    found = beside(pump(1, 500), pump(2, 500, (0.0, 3.0, 0.0, 0.0)))
    assert found.apart == []
    assert found.finding.startswith("temp is ")
    assert found.finding.endswith(", given the other features")


def test_other_scales_are_told_where_half_of_the_features_have_them() -> None:
    rows, mean = pump(1, 2000), pump(1, 2000).mean(axis=0)
    grown = mean + (rows - mean) * [40.0, 1.0, 1.0, 20.0]
    found = beside(rows, grown)
    assert found.finding == "flow moves 1/40 as much, amp moves 1/20 as much as pump-3's"
    assert beside(grown, rows).finding.startswith("flow moves 40 times as much, amp")
    one = mean + (rows - mean) * [40.0, 1.0, 1.0, 1.0]
    assert beside(rows, one).scaled == [], "one alone may have had one jump"
    assert beside(rows[:900], grown[:900]).scaled == [], "an hour says nothing of scales"


def test_features_that_never_moved() -> None:
    here, there, other = pump(1, 400), pump(2, 400), pump(3, 400)
    here[:, 3] = there[:, 3] = 7.0
    assert beside(here, there).alike
    there[:, 3] = 9.0
    found = beside(here, there)
    assert (found.differences[0].feature, found.differences[0].times) == ("amp", None)
    assert not found.alike, "neither ever moved, and they stand at different places"
    here[:, 3] = other[:, 3].mean() + 0.1
    still = next(one for one in beside(here, other).differences if one.feature == "amp")
    assert still.times is None
    assert still.apart < 1.0, "in deviations of where it moves"


def test_few_rows_and_losses_tell_nothing() -> None:
    found = beside(pump(1, 500), pump(2, 99, (-90.0, 0.0, 0.0, 0.0)))
    assert (found.alike, found.untold) == (True, "99 rows are too few (100 tell)")
    by_loss = Basis.fitted(pump(0, 1000), NAMES, scaling="standard", score="loss")
    found = beside(pump(1, 500), pump(2, 500, (-90.0, 0.0, 0.0, 0.0)), by_loss)
    assert "by loss" in found.untold
    assert found.warning(by_loss, merges=True) == ""


def test_a_machine_unlike_all_others_is_told_once() -> None:
    """And one of the others that is unlike this one is told by its name."""
    far = (-900.0, 0.0, 0.0, 0.0)
    others = {f"pump-{i}": evidence(pump(i, 300)) for i in range(3)}
    found = compare_each(evidence(pump(9, 300, far)), others)
    assert [one.name for one in found] == [None, *others]
    [told] = notable(found)
    assert "deviations from the others'" in told.finding
    others["pump-9"] = evidence(pump(9, 300, far))
    found = compare_each(evidence(pump(8, 300)), others)
    assert [one.name for one in notable(found)] == ["pump-9"]


def test_numbers_beyond_range_are_far_apart() -> None:
    size = np.full(4, 1e300)
    huge = Moments(BASIS, np.diag(size), np.zeros(4), size, 500.0, np.sqrt(size))
    [found] = compare_each(evidence(pump(1, 500)), {"pump-3": huge})
    assert not found.alike


def test_a_member_is_compared_with_those_that_it_uses() -> None:
    charter = Charter("pumps", BASIS)
    member = trained_member(charter.start("pump-1"), pump(1, 300))
    assert compare_used(member) == []
    far = evidence(pump(2, 300, (-90.0, 0.0, 0.0, 0.0)))
    member.receive(Contribution("pump-2", 300, (far,)))
    assert [one.name for one in compare_used(member)] == ["pump-2"]
    one_model = Member("pump-1", Detector.for_basis(BASIS), merges=True)
    one_model.detector.learn_many(pump(1, 300))
    one_model.set_prior(Merged("pumps", 1, 1, (far,)))
    [found] = compare_used(one_model)
    assert "deviations from the others'" in found.finding


# Own units

affine = st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0.01, 100.0)), min_size=4, max_size=4)


@settings(deadline=None, max_examples=law_examples(25))
@given(affine, st.integers(0, 2**32 - 1))
def test_machines_that_differ_by_units_are_one_machine_in_own_units(
    maps: list[tuple[float, float]], seed: int
) -> None:
    charter = Charter("pumps", Basis.fitted(pump(0, 1000), NAMES, scaling="own"))
    shift, scale = np.array(maps).T
    rows, more = pump(seed, 200), pump(seed + 1, 200)
    a = charter.start("a", units_from=rows)
    b = charter.start("b", units_from=shift + scale * rows)
    a.detector.learn_many(rows)
    b.detector.learn_many(shift + scale * rows)
    assert a.detector.evidence.close_to(b.detector.evidence, 1e-7)
    # What is sent holds nobody's units, and each takes it in.
    sent = Contribution.from_bytes(b.contribution().to_bytes())
    assert sent.basis == charter.basis
    a.follow(merges=True)
    assert a.receive(sent)
    b.follow(merges=True)
    assert b.receive(a.contribution())
    np.testing.assert_allclose(
        a.detector.score_many(more), b.detector.score_many(shift + scale * more), rtol=1e-5
    )
    [found] = compare_used(a)
    assert found.alike


def test_in_own_units_a_warning_doubts_the_units() -> None:
    charter = Charter("pumps", Basis.fitted(pump(0, 1000), NAMES, scaling="own"))
    a = charter.start("a", units_from=pump(1, 300))
    a.detector.learn_many(pump(2, 300, (-90.0, 0.0, 0.0, 0.0)))
    b = trained_member(charter.start("b", units_from=pump(3, 300)), pump(3, 300))
    a.receive(b.contribution())
    [found] = compare_used(a)
    assert found.warning(a.detector.basis, merges=False).endswith(
        "were its own units taken from rows like those that it learns?"
    )


def test_a_newcomer_that_rests_on_others_scores_in_its_own_units() -> None:
    """Nothing learned yet: all it knows is the others' sum, and their levels are not its own."""
    charter = Charter("pumps", Basis.fitted(pump(0, 1000), NAMES, scaling="own"), merged=True)
    old = trained_member(charter.start("old", units_from=pump(1, 500)), pump(1, 500))
    far = (-90.0, 300.0, 5.0, 0.0)
    new = charter.start("new", units_from=pump(2, 500, far))
    new.receive(old.contribution())
    rows = pump(3, 50, far)
    bulk, single = new.detector.score_many(rows), [new.detector.score_one(row) for row in rows]
    np.testing.assert_allclose(bulk, single, rtol=1e-6)
    assert bulk.mean() < 2.0
    again = Member.from_bytes(new.to_bytes())
    assert again.detector.basis == new.detector.basis
    np.testing.assert_array_equal(again.detector.score_many(rows), bulk)
    broken = rows[0] + [0.0, 30.0, 0.0, 0.0]
    cause = again.detector.blame(broken)[0]
    assert (cause.feature, cause.seen) == ("temp", pytest.approx(broken[1]))
    assert cause.expected == pytest.approx(rows[0, 1], abs=2.0), "in the data's units"


def test_golden_files_in_own_units_are_read_and_written_as_they_are() -> None:
    """Made by hand of six rows, so that all numbers are exact."""
    blob = (GOLDEN / "fan-1-own.evidence").read_bytes()
    sent = Contribution.from_bytes(blob)
    assert sent.to_bytes() == blob
    assert sent.basis.fingerprint == "274e0230c73e3120543c73aeebb92820"
    assert sent.basis.scaling == Scaling("own")
    state = (GOLDEN / "state-2-own.elm").read_bytes()
    member = Member.from_bytes(state)
    assert member.to_bytes() == state
    assert member.detector.basis.scaling == Scaling("own", (2.0, 12.0), (1.0, 2.0))
    assert member.detector.basis.common == sent.basis
    assert member.detector.evidence == sent.evidence
    assert sent.evidence.count == 6


# Who is unlike all others, in one direction: named with the sensor, from sums alone

SENSORS = ["flow", "pressure", "power", "temperature", "vibration"]
SHAPES = np.random.default_rng(5).normal(size=(2, 5))
SOON = FalseAlarmRate(confidence=0.0)


def rows(seed: int, count: int = 800) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X: np.ndarray = rng.normal(size=(count, 2)) @ SHAPES + 0.3 * rng.normal(size=(count, 5))
    return X + 20.0


def wide(times: float) -> np.ndarray:
    X = rows(9)
    return np.asarray(X.mean(axis=0) + times * (X - X.mean(axis=0)))


def loose(*sensors: str) -> np.ndarray:
    X, rng = rows(9), np.random.default_rng(1)
    for sensor in sensors:
        X[:, SENSORS.index(sensor)] += 6.0 * rng.normal(size=len(X))
    return X


CHARTER = Charter(
    "fans", Basis.fitted(np.vstack([rows(n) for n in range(5)]), SENSORS, scaling="standard")
)


def fan(number: int, X: np.ndarray) -> Member:
    return trained_member(CHARTER.start(f"fan-{number}", threshold=SOON), X)


def fleet(odd: np.ndarray) -> list[Contribution]:
    """Six devices of one kind, and fan-7."""
    return [*(fan(n, rows(n)).contribution() for n in range(1, 7)), fan(7, odd).contribution()]


def named(contributions: list[Contribution]) -> dict[str, str]:
    standing = standing_others(CHARTER, contributions)
    found = {one.origin: profile_of(one.parts[0]) for one in contributions}
    assert standing.unlike == unlike_all({name: one for name, one in found.items() if one})
    return standing.unlike


@pytest.mark.parametrize(("times", "told"), [(3.0, "3"), (30.0, "29")])
def test_a_normal_that_is_so_much_wider_is_named(times: float, told: str) -> None:
    assert set(found := named(fleet(wide(times)))) == {"fan-7"}
    assert f" varies {told} times as much" in found["fan-7"]


def test_loose_sensors_are_named_and_no_others() -> None:
    found = named(fleet(loose("vibration", "power")))
    assert set(found) == {"fan-7"}
    assert "vibration varies " in found["fan-7"]
    assert "power varies " in found["fan-7"]
    assert "flow" not in found["fan-7"]


def test_a_sensor_at_another_level_is_named() -> None:
    found = named(fleet(rows(9) + np.array([0.0, 0.0, 0.0, 60.0, 0.0])))
    assert set(found) == {"fan-7"}
    assert found["fan-7"].startswith("temperature is ")
    assert found["fan-7"].endswith(" deviations from every other")


def test_who_is_like_the_others_or_young_is_not_named() -> None:
    assert named(fleet(rows(9))) == {}
    assert named(fleet(rows(9, 120))) == {}
    assert named(fleet(loose("vibration")[:9])) == {}, "nine rows tell nothing"


def test_who_left_or_was_repaired_is_named_no_more() -> None:
    standing = standing_others(CHARTER, fleet(loose("vibration")))
    assert set(standing.unlike) == {"fan-7"}
    standing.take(fan(7, rows(9)).contribution())
    assert standing.unlike == {}
    standing.take(fan(7, wide(30.0)).contribution())
    standing.leave("fan-7")
    assert standing.unlike == {}


def test_a_device_knows_itself_by_names_and_by_groups() -> None:
    *others, _ = known = fleet(rows(9))
    odd = fan(7, loose("vibration"))
    odd.receive_all(others)
    assert unlike_used(odd).startswith("vibration varies ")
    standing = standing_others(CHARTER, known)
    grouped = fan(7, loose("vibration"))
    grouped.set_prior(standing.others(1, "fan-7"))
    assert unlike_used(grouped).startswith("vibration varies ")
    one_other = fan(7, loose("vibration"))
    one_other.receive(others[0])
    assert unlike_used(one_other) == "", "of two, nobody knows which is the odd one"


def test_a_loss_tells_nothing() -> None:
    assert profile_of(Detector.for_data(rows(1), score="loss").evidence) is None
