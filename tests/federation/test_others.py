"""All others at once: groups that can be asked, what they lend, and no trace of who left."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadFile, BadInput, Basis, Evidence, FalseAlarmRate, HiddenLayer, NotAdmissible
from elmgrove.algebra.moments import Moments
from elmgrove.federation import aggregation as others_module
from elmgrove.federation.aggregation import StandingOthers
from elmgrove.federation.charter import Charter
from elmgrove.federation.comparison import compare_each
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.merged import MERGED_FORMAT, GroupLabel, Merged, Own
from elmgrove.storage.sealed import seal, unseal
from support.factories import (
    BASIS,
    DISTANT,
    cloud,
    contribution_of,
    distance_contribution,
    near_plane,
    standing_others,
    trained_member,
)
from support.laws import law_examples
from support.pumps import NAMES, TEMP, pump_rows

CHARTER = Charter("fans", DISTANT)
SOON = FalseAlarmRate(confidence=0.0)


def fan(number: int, *kinds: int, threshold: float | None = 3.0, count: int = 600) -> Contribution:
    """What a device contributes that knows these kinds of rows."""
    patterns = [cloud(kind, number, count) for kind in kinds]
    return replace(distance_contribution(f"fan-{number}", *patterns), threshold=threshold)


FLEET = [fan(1, 0), fan(2, 0), fan(3, 1), fan(4, 0, 1), fan(5, 2)]


def standing(*contributions: Contribution) -> StandingOthers:
    return standing_others(CHARTER, contributions)


def sum_for(others: StandingOthers, origin: str) -> Merged:
    return others.others(1, origin)


def by_label(merged: Merged) -> dict[str, Evidence]:
    return {str(label): part for label, part in zip(merged.labels, merged.parts, strict=True)}


def test_a_device_is_told_of_each_group_without_its_own_part() -> None:
    found = sum_for(standing(*FLEET), "fan-1")
    assert found.devices == 4
    groups = by_label(found)
    assert set(groups) == {"fan-2, fan-4 (pattern 1)", "fan-3, fan-4 (pattern 2)", "fan-5"}
    alike = groups["fan-2, fan-4 (pattern 1)"]
    assert alike.close_to(FLEET[1].parts[0] + FLEET[3].parts[0], 1e-12)
    assert "fan-1, fan-2, fan-4 (pattern 1)" in by_label(sum_for(standing(*FLEET), "fan-9"))


def test_a_label_tells_some_names_and_how_many_there_are() -> None:
    many = standing(*(fan(number, 0, threshold=float(number)) for number in range(1, 8)))
    (label,) = sum_for(many, "fan-2").labels
    assert (str(label), label.devices) == ("fan-1, fan-3, fan-4 and 3 more", 6)
    assert label.threshold == 4.0, "one that was stated"


def test_who_states_no_threshold_is_in_no_group_and_lends() -> None:
    """Such as still learn, or have a question open."""
    learning, knows = fan(1, 0, threshold=None), fan(2, 0)
    made = standing(learning, knows)
    groups = by_label(sum_for(made, "x"))
    assert groups.keys() == {"fan-2"}
    assert groups["fan-2"].close_to(knows.parts[0], 1e-12), "the sum is of those that are named"
    assert len(sum_for(made, "x").loans) == 2
    made.take(fan(1, 0))
    assert by_label(sum_for(made, "x")).keys() == {"fan-1, fan-2"}
    made.take(learning)
    assert by_label(sum_for(made, "x")).keys() == {"fan-2"}


def test_few_lend_each_apart_and_many_in_shares_that_no_device_is_alone_in() -> None:
    few = [fan(number, number % 2) for number in range(1, 5)]
    apart = sum_for(standing(*few), "fan-9").loans
    assert [loan.count for loan in apart] == [one.lent.count for one in few if one.lent]
    for fleet in (few, [fan(number, 0, count=50) for number in range(1, 31)]):
        for least in (2, 3):
            loans = standing(*fleet).others(1, "fan-1", least=least).loans
            weight = max(one.lent.count for one in fleet if one.lent)
            assert all(loan.count > (least - 1) * weight for loan in loans)
            others = [one.lent for one in fleet[1:]]
            assert sum(loan.count for loan in loans) == pytest.approx(
                sum(lent.count for lent in others if lent is not None)
            )


def test_sums_are_of_at_least_so_many_and_so_is_what_is_left_out() -> None:
    made = standing(*FLEET)
    # fan-5 is alone, and would be all that the sum over everybody has beside what is told.
    assert by_label(made.others(1, "me", least=2)).keys() == {"fan-1, fan-2, fan-4 (pattern 1)"}
    made.leave("fan-5")
    assert len(made.others(1, "me", least=2).labels) == 2
    three = standing(fan(1, 0, 1), fan(2, 0), fan(3, 0))
    seen = three.others(1, "me", least=2)
    assert (seen.labels, seen.devices, len(seen.loans)) == ((), 3, 1), "one pattern is left alone"
    few = three.others(1, "fan-3", least=3)
    assert (few.devices, few.evidence.count, few.loans) == (0, 0.0, ())


def test_who_belongs_nowhere_is_left_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others_module, "MOST_GROUPS", 1)
    made = standing(fan(1, 0), fan(2, 0), fan(3, 1))
    assert len(made.others(1, "me").labels) == 1
    assert made.others(1, "me", least=2).labels == ()


def test_no_more_groups_are_kept_than_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others_module, "MOST_GROUPS", 2)
    made = standing(*FLEET)
    assert [str(label) for label in sum_for(made, "x").labels] == [
        "fan-1, fan-2, fan-4 (pattern 1)",
        "fan-3, fan-4 (pattern 2)",
    ]
    # Where one is free again, the next that comes makes one.
    for number in (3, 4):
        made.leave(f"fan-{number}")
    made.take(fan(5, 2, count=800))
    assert [str(label) for label in sum_for(made, "x").labels] == ["fan-1, fan-2", "fan-5"]


def test_a_device_with_many_patterns_takes_no_place_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(others_module, "MOST_GROUPS", 3)
    alike, many = [fan(number, 50) for number in (1, 2, 3)], range(16)
    # It comes first, as after a restart, and again.
    made = standing(fan(0, *many), *alike, fan(0, *many, count=700), fan(4, 51))
    assert "fan-1, fan-2, fan-3" in by_label(sum_for(made, "x"))
    assert "fan-4" in by_label(sum_for(made, "x")), "of equal ones, those of each device in turn"
    assert len(sum_for(made, "x").labels) == 3
    assert len(sum_for(made, "fan-0").labels) == 2, "what it knows itself is not told to it"
    assert by_label(made.others(1, "x", least=2)).keys() == {"fan-1, fan-2, fan-3"}


@pytest.mark.parametrize("odd", [[(n, n) for n in range(9)], [(n, n // 2) for n in range(12)]])
def test_what_most_devices_know_is_told_first(
    odd: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine that are like nobody, or six pairs, were there before three that are alike."""
    monkeypatch.setattr(others_module, "MOST_GROUPS", 4)
    before = [fan(100 + number, kind) for number, kind in odd]
    made = standing(*before, *(fan(number, 50) for number in (1, 2, 3)))
    labels = sum_for(made, "x").labels
    assert len(labels) == 4
    assert "fan-1, fan-2, fan-3" in map(str, labels)


def test_a_device_is_named_once_however_many_of_its_patterns_are_in_a_group() -> None:
    several = replace(
        distance_contribution("fan-1", *(cloud(0, noise) for noise in (1, 2, 3))), threshold=3.0
    )
    (label,) = sum_for(standing(several, *(fan(number, 0) for number in (2, 3, 4))), "x").labels
    assert str(label) == "fan-1 (pattern 1), fan-2, fan-3 and 1 more"


def test_thresholds_beyond_what_can_be_added_stop_nobody() -> None:
    (label,) = sum_for(
        standing(fan(1, 0, threshold=1.7e308), fan(2, 0, threshold=1.7e308)), "x"
    ).labels
    assert label.threshold == 1.7e308


def test_a_count_that_has_no_square_stops_nobody() -> None:
    nothing = np.zeros(6)
    huge = Contribution(
        "evil", 5, (Moments(DISTANT, np.zeros((6, 6)), nothing, nothing, 1e160),), 1.0
    )
    CHARTER.require(huge)
    made = standing(*FLEET, huge)
    assert sum_for(made, "fan-1").devices == 5
    assert compare_each(FLEET[0].evidence, {"evil": huge.evidence})


def test_what_can_not_be_solved_for_is_left_out() -> None:
    made = StandingOthers(Charter("fans", BASIS, 0.0))
    made.take(replace(contribution_of("fan-1", near_plane(1, 1)), threshold=1.0))
    made.take(replace(contribution_of("fan-2", near_plane(1, 2, 1)), threshold=1.0))
    assert [str(label) for label in sum_for(made, "x").labels] == ["fan-1"]
    assert sum_for(made, "x").devices == 2


changes = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from([None, (0,), (1,), (0, 1)]), st.integers(2, 4)),
    max_size=12,
)


@settings(max_examples=law_examples(25), deadline=None)
@given(changes=changes)
def test_who_changed_or_left_leaves_no_trace(
    changes: list[tuple[int, tuple[int, ...] | None, int]],
) -> None:
    others, held = standing(*FLEET), {one.origin: one for one in FLEET}
    for number, kinds, size in changes:
        if kinds is None:
            others.leave(f"fan-{number}")
            held.pop(f"fan-{number}", None)
        else:
            new = fan(number, *kinds, count=200 * size)
            others.take(new)
            held[new.origin] = new
    found, expected = sum_for(others, "x"), sum_for(standing(*held.values()), "x")
    assert found.devices == expected.devices == len(held)
    groups, fresh = by_label(found), by_label(expected)
    assert groups.keys() == fresh.keys()
    assert all(groups[name].close_to(fresh[name], 1e-9) for name in groups)
    assert len(found.loans) == len(expected.loans)
    for loan, same in zip(found.loans, expected.loans, strict=True):
        assert loan.close_to(same, 1e-9)


# As a device uses it


def asking() -> Member:
    member = trained_member(CHARTER.start("fan-1", threshold=SOON), cloud(0, 1))
    member.set_prior(sum_for(standing(*FLEET[1:]), "fan-1"))
    return member


def test_groups_are_asked_about_anomalous_rows() -> None:
    member = asking()
    verdict = member.detector.observe(cloud(1, 7).mean(axis=0))
    assert verdict.anomalous
    assert verdict.known == ("fan-3, fan-4 (pattern 2)",)
    nowhere = member.detector.observe(np.full(6, 1e3))
    assert (nowhere.known, nowhere.anomalous) == ((), True)
    assert member.detector.received is None, "nothing is merged"


def test_a_state_and_a_message_come_back_as_they_were() -> None:
    member = asking()
    assert Merged.from_bytes(member.merged.to_bytes()) == member.merged
    back = Member.from_bytes(member.to_bytes())
    assert back.merged == member.merged
    assert back.to_bytes() == member.to_bytes()
    row = cloud(2, 8).mean(axis=0)
    assert back.detector.observe(row).known == member.detector.observe(row).known == ("fan-5",)


def test_a_label_that_can_not_be_is_refused_and_each_group_has_one_or_none_has() -> None:
    for label in ((), 1, 1.0), (("a", "b"), 1, 1.0), (("a\n",), 1, 1.0), (("a",), 1, -1.0):
        with pytest.raises(BadInput):
            GroupLabel(*label)
    with pytest.raises(BadInput):
        GroupLabel(("a",), 1, np.inf)
    found = sum_for(standing(*FLEET), "fan-1")
    with pytest.raises(BadInput, match="label"):
        replace(found, labels=found.labels[1:])


def test_groups_that_no_rows_can_have_made_are_left_out() -> None:
    member, known = asking(), sum_for(standing(*FLEET), "fan-1")
    wrong = [part.weighted(-1.0) for part in known.parts]
    loan = known.loans[0].weighted(-1.0)
    member.set_prior(replace(known, parts=(wrong[0], *known.parts[1:]), loans=(loan,)))
    assert (member.merged.labels, member.merged.loans) == (known.labels[1:], ())
    assert member.detector.observe(cloud(2, 8).mean(axis=0)).known == ("fan-5",)
    member.set_prior(replace(known, parts=tuple(wrong)))
    assert (member.merged.labels, member.merged.apart) == ((), False)
    assert Member.from_bytes(member.to_bytes()).merged == member.merged


def test_a_sum_to_be_merged_that_no_rows_can_have_made_is_refused() -> None:
    member = asking()
    wrong = FLEET[0].evidence.weighted(-1.0)
    with pytest.raises(NotAdmissible, match="fans"):
        member.set_prior(Merged("fans", 1, 1, (wrong,)))


# What another knows, or claims to know, takes no alarm away: honest, loose or a liar

PUMPS = Charter("pumps", Basis.fitted(pump_rows(4000, 0), NAMES, scaling="standard"))
HONEST, ROWS, FAULTY = 5, 1500, 200


def pump(name: str, X: np.ndarray) -> Member:
    return trained_member(PUMPS.start(name, threshold=SOON), X)


def wide(times: float) -> np.ndarray:
    X = pump_rows(ROWS, 50)
    return np.asarray(X.mean(axis=0) + times * (X - X.mean(axis=0)))


def loose() -> np.ndarray:
    """An ordinary machine with two loose sensors."""
    X, rng = pump_rows(ROWS, 50), np.random.default_rng(1)
    X[:, [TEMP, 3]] += rng.normal(size=(ROWS, 2)) * [40.0, 12.0]
    return X


def nine_rows() -> Contribution:
    """Made up: nine rows that span everything, and a threshold."""
    X = pump_rows(ROWS, 50)
    far = X.mean(axis=0) + 100.0 * X.std(axis=0) * np.vstack([np.zeros(4), np.eye(4), -np.eye(4)])
    return replace(pump("odd", far).contribution(), threshold=5.0)


ODD: dict[str, Callable[[], Contribution]] = {
    "an honest one": lambda: pump("odd", pump_rows(ROWS, 50)).contribution(),
    "3 times as wide": lambda: pump("odd", wide(3.0)).contribution(),
    "30 times as wide": lambda: pump("odd", wide(30.0)).contribution(),
    "nine rows": nine_rows,
    "two loose sensors": lambda: pump("odd", loose()).contribution(),
}


def fault(kind: str) -> np.ndarray:
    X, rng = pump_rows(FAULTY, 77), np.random.default_rng(3)
    if kind == "bearing":
        X[:, TEMP] += np.linspace(2.0, 15.0, FAULTY)
    elif kind == "stuck":
        X[:, TEMP] = X[0, TEMP] + 6.0
    elif kind == "zero":
        X[:, 3] = 0.0
    else:
        X[:, TEMP] += 20.0 * rng.normal(size=FAULTY)
    return X


@pytest.fixture(name="honest", scope="module")
def honest_fixture() -> list[Contribution]:
    return [pump(f"pump-{n}", pump_rows(ROWS, n)).contribution() for n in range(1, HONEST + 1)]


def decisions(victim: Member, X: np.ndarray) -> list[tuple[bool, int | None]]:
    return [(one.anomalous, one.event) for one in victim.detector.observe_many(X)]


@pytest.mark.parametrize("at_once", [False, True], ids=["by name", "at once"])
@pytest.mark.parametrize("kind", ["bearing", "stuck", "zero", "wild"])
@pytest.mark.parametrize("odd", ODD)
def test_no_other_hides_a_fault(
    odd: str, kind: str, at_once: bool, honest: list[Contribution]
) -> None:
    alone, victim = (pump("victim", pump_rows(ROWS, 99)) for _ in range(2))
    others = [*honest, ODD[odd]()]
    if at_once:
        standing = standing_others(PUMPS, others)
        victim.set_prior(standing.others(1, "victim"))
    else:
        assert victim.receive_all(others) == []
    expected = decisions(alone, fault(kind))
    assert sum(anomalous for anomalous, _ in expected) > 0.5 * FAULTY
    assert decisions(victim, fault(kind)) == expected


def test_one_that_swallowed_a_fault_does_not_silence_the_next() -> None:
    """A young device learned the fault as normal, as an agent does without ``learn``."""
    swallowed = PUMPS.start("a")
    broken = pump_rows(900, 5)
    broken[300:, TEMP] += 30.0
    swallowed.detector.learn_many(broken)
    knows = replace(swallowed.contribution(), threshold=3.0)
    alone, b = (pump("b", pump_rows(ROWS, 6)) for _ in range(2))
    b.receive(knows)
    later = pump_rows(300, 7)
    later[:, TEMP] += 30.0
    expected = decisions(alone, later)
    assert decisions(b, later) == expected
    assert sum(event is not None for _, event in expected) > 290
    event = b.detector.events.open
    assert event.known == ("a",)
    assert ", normal at a; temp " in str(event)


# On its way: a merged sum travels whole or not at all

SUMMED = Basis(HiddenLayer(3, 2, activation="relu", seed=1), 3, ("a", "b", "c"))


def summed(dtype: type = np.float64) -> Merged:
    X = np.random.default_rng(1).normal(size=(5, 3)).astype(dtype)
    H = SUMMED.layer(X)
    U, V = (H.T @ H).astype(dtype), (H.T @ X).astype(dtype)
    evidence = Evidence(SUMMED, U, V, float(np.square(X).sum()), 5)
    return Merged("fans", 12, 3, (evidence,))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sum_is_the_same_after_its_journey(dtype: type) -> None:
    arrived = Merged.from_bytes(summed(dtype).to_bytes())
    assert arrived == summed(dtype)
    assert arrived.evidence.resolution == np.finfo(dtype).eps
    nobody = Merged("fans", 0, 0, (Evidence.zero(SUMMED),))
    assert Merged.from_bytes(nobody.to_bytes()) == nobody


@pytest.mark.parametrize("rule", ["everyone", "group", "fan-1,Lüfter/2"])
def test_groups_are_the_same_after_their_journey(rule: str) -> None:
    evidence = summed().evidence
    for groups in ((), (evidence,), (evidence, evidence)):
        parts, apart = groups or (Evidence.zero(SUMMED),), bool(groups)
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
    evidence = summed().evidence
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
    blob = summed().to_bytes()
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
    fields, arrays = unseal(MERGED_FORMAT, summed().to_bytes())
    with pytest.raises(BadFile, match="not as a merged sum should be"):
        Merged.from_bytes(seal(MERGED_FORMAT, {**fields, name: value}, arrays))


def test_a_number_that_is_none_is_refused() -> None:
    for revision, devices in ((-1, 0), (0, -1)):
        with pytest.raises(BadInput):
            Merged("fans", revision, devices, (Evidence.zero(SUMMED),))
