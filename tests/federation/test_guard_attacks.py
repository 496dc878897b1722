"""What the upload guard holds against: each attack finds rows in uploads that counting rows allows.

Those are made without the guard, of as many rows as ``least_new_rows`` asks for: that was once all
that it did. Of what it lets out now the same attack finds none.
"""

import math

import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.algebra.moments import zero_evidence
from elmgrove.algebra.unsent import inputs_held_back
from elmgrove.detector.feedback import reject
from elmgrove.detector.history import Span
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member, least_new_rows
from support.factories import normal_rows, trained_member
from support.reconstruction import (
    at_the_ends,
    computed,
    of_single_units,
    off,
    on_and_off,
    projections,
    share_off,
    singled_out,
)

TANH = Charter("fans", Basis(HiddenLayer(64, 32, activation="tanh", seed=3), 64))
LEAST = least_new_rows(TANH.basis)
X = 0.3 * np.random.default_rng(100).normal(size=(400, 64))


def uploaded(member: Member, *, guarded: bool = True) -> Evidence:
    """What somebody who may read contributions has of a device."""
    offer = member.offer(guarded=guarded)
    return Contribution.from_bytes(offer.to_bytes()).evidence


# A state that was lost


@pytest.mark.parametrize("knows", [False, True])
def test_the_same_rows_learned_again_do_not_show_those_that_follow(knows: bool) -> None:
    former, reborn = TANH.start("fan"), TANH.start("fan")
    former.detector.learn_many(X[:100])
    before = uploaded(former)
    if knows:
        reborn.recall(100, left=False)
    reborn.detector.learn_many(X[:104])
    if not knows:
        assert off(X[100:104], computed(uploaded(reborn) - before)).max() < 1e-6
        return
    assert reborn.offer() is None
    assert reborn.rows_missing() == 100 + LEAST - 104
    reborn.detector.learn_many(X[104 : 100 + LEAST])
    guesses = computed(uploaded(reborn) - before)
    assert off(X[100 : 100 + LEAST], guesses).min() > 0.3


# Rows that are forgotten


def newest_off(forgetting: float, rows: int, most: int) -> float:
    """How far off the newest row is that is computed from two uploads, as a share of it."""
    member = trained_member(TANH.start("fan", forgetting=forgetting), X[:100])
    before = uploaded(member, guarded=False)
    member.detector.learn_many(X[100 : 100 + rows])
    difference = uploaded(member, guarded=False) - before.weighted(forgetting**rows)
    # With weights that fall fast, a few rows are most of the difference.
    return share_off(X[99 + rows], computed(difference, most, starts=8))


@pytest.mark.parametrize(("forgetting", "most", "share"), [(0.5, 24, 1e-6), (0.8, 8, 0.15)])
def test_of_rows_that_are_forgotten_counting_does_not_hide_the_newest(
    forgetting: float, most: int, share: float
) -> None:
    assert newest_off(forgetting, LEAST, most) < share


@pytest.mark.parametrize("forgetting", [0.5, 0.8, 0.9, 0.95])
def test_where_rows_never_weigh_enough_nothing_is_sent_and_that_is_said_at_once(
    forgetting: float,
) -> None:
    member = TANH.start("fan", forgetting=forgetting)
    for rows in (0, 400):
        member.detector.learn_many(X[:rows])
        assert member.offer() is None
        assert member.rows_missing() == math.inf
        told = f"with forgetting {forgetting:g} the newest rows could be computed"
        assert told in str(member.blocked_reason())
        assert "use 0.977 or more" in str(member.blocked_reason())
    assert member.offer(guarded=False) is not None


def test_by_weight_more_rows_are_needed_and_the_newest_does_not_show() -> None:
    member = TANH.start("fan", forgetting=0.99)
    needed = int(member.rows_missing())
    member.detector.learn_many(X[:needed])
    # 1 + 0.99 + 0.99² + …
    weights = 0.99 ** np.arange(needed)
    assert weights[:-1].sum() < LEAST <= weights.sum()
    first = member.offer()
    assert first is not None
    member.detector.learn_many(X[needed : 2 * needed - 1])
    assert member.rows_missing() == 1
    assert member.offer() == first
    member.detector.learn_one(X[2 * needed - 1])
    assert member.offer() != first
    assert newest_off(0.99, needed, 8) > 0.8


# Windows, which overlap


@pytest.mark.parametrize("units", [8, 40])
def test_of_windows_the_rows_at_both_ends_do_not_show(units: int) -> None:
    basis = Basis(HiddenLayer(4, units, seed=1), 40, window=10, score="distance")
    rows = normal_rows(1, 999, 4)
    member = trained_member(Charter("fans", basis).start("fan"), rows)
    ends = np.vstack([rows[:9], rows[-9:]])
    whole = member.contribution().evidence
    assert np.abs(at_the_ends(whole) - ends).max() < 1e-6
    given = uploaded(member)
    assert whole.count - given.count == inputs_held_back(basis)
    assert np.abs(at_the_ends(given) - ends).max(axis=1).min() > 0.3


def test_what_was_held_back_leaves_with_the_next_upload() -> None:
    basis = Basis(HiddenLayer(4, 8, seed=1), 40, window=10, score="distance")
    rows, held_back = normal_rows(1, 400, 4), inputs_held_back(basis)
    member = trained_member(Charter("fans", basis).start("fan"), rows[:200])
    assert uploaded(member).count == 191 - held_back
    again = Member.from_bytes(member.to_bytes())
    assert again.rows_missing() == 0
    assert again.offer() == member.offer()
    again.detector.learn_many(rows[200:300])
    # Saved and loaded, it still knows which to withhold.
    again = Member.from_bytes(again.to_bytes())
    assert uploaded(again).count == 291 - held_back


# Units that are 0 in most rows

RELU = Charter("digits", Basis(HiddenLayer(64, 32, "relu", seed=3), 64))


def digits(count: int) -> np.ndarray:
    """Rows as they come, from 0 to 16: most units are active in all or in hardly any of them."""
    rng = np.random.default_rng(1)
    size = (count, 64)
    return np.rint(16.0 * rng.random(size) * (rng.random(size) < 0.5))


def test_a_unit_that_one_row_activates_does_not_give_it_away() -> None:
    member, rows, found = RELU.start("fan"), digits(50 * LEAST), 0
    before = Evidence.zero(RELU.basis)
    for start in range(0, len(rows), LEAST):
        new = rows[start : start + LEAST]
        member.detector.learn_many(new)
        assert member.offer() == (None if not start else member.shared)
        given = uploaded(member, guarded=False)
        found += int((off(new, of_single_units(given - before)) < 1e-6).sum())
        before = given
    assert found > 10, "which is why the guard lets nothing of relu out"


def test_relu_is_named_where_it_holds_an_upload_back() -> None:
    member = trained_member(RELU.start("fan"), digits(50 * LEAST))
    assert member.offer() is None
    assert member.rows_missing() == math.inf
    assert "a unit of the relu layer may be active in so few rows" in str(member.blocked_reason())


# Columns with few values

FLAGS = {6: (0.0, 1.0), 7: (0.0, 1.0)}
STATES = Charter("fans", Basis(HiddenLayer(8, 8), 8, score="distance"))


def singled_out_of(
    charter: Charter,
    rows: np.ndarray,
    inputs: np.ndarray,
    flags: dict[int, tuple[float, float]],
    step: int,
    *,
    guarded: bool,
    restarts: bool = False,
) -> tuple[int, int, float]:
    """What columns give away of uploads after so many rows each; uploads, and rows in the last."""
    member, found, uploads = charter.start("fan"), set[int](), 0
    before = zero_evidence(charter.basis)
    for start in range(0, len(rows), step):
        member.detector.learn_many(rows[start : start + step])
        if restarts:
            member = Member.from_bytes(member.to_bytes())
        given = uploaded(member, guarded=guarded)
        guesses = singled_out(given, before, flags)
        if len(guesses):
            found |= set(np.flatnonzero(off(inputs, guesses) < 1e-6).tolist())
        uploads += given != before
        before = given
    return len(found), uploads, before.count


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
def test_columns_that_are_on_in_few_rows_do_not_give_them_away(
    guarded: bool, restarts: bool
) -> None:
    rows = on_and_off(150 * 60, 0.01)
    found, uploads, count = singled_out_of(
        STATES, rows, rows, FLAGS, 60, guarded=guarded, restarts=restarts
    )
    assert (found, uploads) == (0, 150) if guarded else found > 90
    # What is held back leaves as soon as there are enough: a few rows are all that is missing.
    assert len(rows) - count < 10


@pytest.mark.parametrize("guarded", [False, True])
def test_a_column_that_is_on_in_few_windows_does_not_give_them_away(guarded: bool) -> None:
    rows = on_and_off(6000, 0.01)[:, 3:7]
    charter = Charter("fans", Basis(HiddenLayer(4, 12), 12, window=3, score="distance"))
    flags = dict.fromkeys((3, 7, 11), (0.0, 1.0))
    inputs = np.lib.stride_tricks.sliding_window_view(rows, (3, 4)).reshape(-1, 12)
    found, *_ = singled_out_of(charter, rows, inputs, flags, 150, guarded=guarded)
    assert found == 0 if guarded else found > 10


@pytest.mark.parametrize("on", range(7))
def test_rows_that_a_column_singles_out_are_held_back_until_there_are_five(on: int) -> None:
    member, rows = STATES.start("fan"), on_and_off(60, 0.0)
    rows[:on, 6] = 1.0
    member.detector.learn_many(rows)
    assert uploaded(member).count == (60 if on in (0, 5, 6) else 60 - on)
    assert member.rows_missing() == 0
    more = on_and_off(60, 0.0)
    more[: max(5 - on, 0), 6] = 1.0
    member.detector.learn_many(more)
    assert uploaded(member).count == 120


def test_nothing_is_left_of_a_column_that_moved_in_rows_held_back_alone() -> None:
    rows = on_and_off(200, 0.0) / 3.0
    rows[17, 6] = 0.1
    member = trained_member(STATES.start("fan"), rows)
    given = uploaded(member)
    assert (given.about(np.zeros(8)).e[6], given.about(np.zeros(8)).s[6]) == (0.0, 0.0)
    given.require_admissible("what leaves")


def test_five_of_six_rows_do_not_give_the_sixth_away() -> None:
    member, rows = STATES.start("fan"), on_and_off(60, 0.0)
    rows[:6, 6], rows[:5, 7] = 1.0, 1.0
    member.detector.learn_many(rows)
    given = uploaded(member)
    assert given.count == 59
    assert not len(singled_out(given, zero_evidence(STATES.basis), FLAGS))
    guesses = singled_out(member.contribution().evidence, zero_evidence(STATES.basis), FLAGS)
    assert off(rows[5:6], guesses).max() < 1e-9


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
def test_of_what_is_taken_out_a_column_does_not_show_the_one_row_it_was_on_in(
    guarded: bool, restarts: bool
) -> None:
    member, rows = STATES.start("fan"), on_and_off(400, 0.0)
    rows[:4, 6], rows[100, 6] = 1.0, 1.0
    member.detector.learn_many(rows[:100], np.arange(100.0))
    member.detector.learn_many(rows[100:200], 3600.0 + np.arange(100.0))
    before = uploaded(member)
    assert before.count == 200
    assert reject(member.detector, Span(3600.0, 7200.0)).taken == 100
    if restarts:
        member = Member.from_bytes(member.to_bytes())
    member.detector.learn_many(rows[200:300], 7200.0 + np.arange(100.0))
    given = uploaded(member, guarded=guarded)
    if not guarded:
        assert off(rows[100:101], singled_out(given, before, FLAGS)).max() < 1e-9
        return
    assert given == before
    assert "columns with few values" in str(member.blocked_reason())
    rows[300:305, 6] = 1.0
    member.detector.learn_many(rows[300:], 10800.0 + np.arange(100.0))
    given = uploaded(member)
    assert given.count == 300
    assert not len(singled_out(given, before, FLAGS))


def test_what_a_former_self_gave_away_does_not_show_a_row_by_a_column() -> None:
    former, rows = STATES.start("fan"), on_and_off(300, 0.0)
    rows[:5, 6], rows[150, 6] = 1.0, 1.0
    former.detector.learn_many(rows[:100])
    before = uploaded(former)
    reborn = trained_member(STATES.start("fan"), rows[:200])
    assert off(rows[150:151], singled_out(reborn.detector.evidence, before, FLAGS)).max() < 1e-9
    reborn.recall(100, left=False)
    reborn.detector.learn_many(rows[200:])
    assert reborn.offer() is None


def test_where_columns_hold_too_many_rows_back_that_is_said() -> None:
    member, rows = STATES.start("fan"), on_and_off(8, 0.0)
    rows[:4, 6] = 1.0
    member.detector.learn_many(rows)
    assert member.offer() is None
    assert "columns with few values (on or off, a word) single out" in str(member.blocked_reason())
    member.detector.learn_many(on_and_off(20, 0.0))
    assert member.blocked_reason() is None
    assert uploaded(member).count == 24


def test_a_column_that_moves_in_one_row_gives_away_nothing_of_it() -> None:
    """What it gave away before: of 1,000 rows one, rebuilt from 8 of 16 units."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(4, 16))
    rows = 50.0 + 10.0 * rng.normal(size=(1000, 4)) @ mixed
    rows += 3.0 * rng.normal(size=rows.shape)
    rows[:, -1] = np.arange(1000) == 700
    basis = Basis(HiddenLayer(16, 8, seed=1), 16)
    member = Charter("fans", basis).start("fan")
    member.detector.learn_many(rows)
    whole = member.contribution().evidence
    np.testing.assert_allclose(projections(whole, -1), basis.layer(rows[700]), rtol=1e-9)
    given = uploaded(member)
    assert given.count == 999
    assert np.abs(projections(given, -1)).max() < 1e-9


# What counting can't stop


def test_two_sensors_that_differ_in_one_row_give_it_away() -> None:
    """The number in the docs: columns of many values are not looked at together."""
    rng = np.random.default_rng(0)
    rows = rng.normal(20.0, 2.0, size=(1000, 8))
    rows[:, 7] = rows[:, 6]
    rows[500, 7] += 3.0
    member = trained_member(STATES.start("fan"), rows)
    given = uploaded(member)
    moved = given.about(np.zeros(8)).C @ np.array([0.0] * 6 + [-1.0, 1.0]) / 3.0
    np.testing.assert_allclose(moved, rows[500], rtol=1e-6)


def test_one_far_value_of_a_column_gives_the_row_away_roughly() -> None:
    """The number in the docs: a thousand deviations away, of sixty rows."""
    rng, wrong = np.random.default_rng(0), list[float]()
    for _ in range(50):
        rows = rng.normal(size=(60, 8))
        rows[30, 7] = 1000.0
        member = trained_member(STATES.start("fan"), rows)
        given = uploaded(member)
        guess = given.about(np.zeros(8)).C[7] / 1000.0
        wrong.append(float(np.abs(guess - rows[30])[:7].mean()))
    assert round(float(np.mean(wrong)), 3) == 0.006


# Rows that come again


def test_a_few_rows_that_were_learned_many_times_do_not_show_in_the_first_upload() -> None:
    member = TANH.start("fan")
    for _ in range(6):
        member.detector.learn_many(X[:8], times=np.arange(1000.0, 1008.0))
    known = member.contribution().evidence
    assert known.count >= LEAST
    assert (off(X[:8], computed(known, 8, starts=20)) < 1e-6).sum() > 4
    assert member.offer() is None
    assert "may have been learned before" in str(member.blocked_reason())
    member.detector.learn_many(X[16:100], times=np.arange(2000.0, 2084.0))
    assert member.blocked_reason() is None
    assert member.offer() is not None


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("saved", [True, False])
def test_a_device_whose_clock_was_ahead_gives_again_once_it_is_right(
    one_by_one: bool, saved: bool
) -> None:
    member = TANH.start("fan")

    def learn(rows: np.ndarray, begin: float) -> None:
        times = begin + np.arange(float(len(rows)))
        if one_by_one:
            for row, time in zip(rows, times.tolist(), strict=True):
                member.detector.learn_one(row, time)
        else:
            member.detector.learn_many(rows, times)

    learn(X[:100], 0.0)
    assert member.offer() is not None
    learn(X[100:103], 4e9)
    if saved:
        member = Member.from_bytes(member.to_bytes())
    learn(X[103:200], 103.0)
    second = member.offer()
    assert second.evidence.count == 200
    if saved:
        member = Member.from_bytes(member.to_bytes())
    # What was learned while it was ahead, and since, is known all the same.
    learn(X[103:200], 103.0)
    learn(X[100:103], 4e9)
    assert member.rows_missing() > LEAST - 10
    assert member.offer() == second
    assert "may have been learned before" in str(member.blocked_reason())
