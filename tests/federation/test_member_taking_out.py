"""The upload guard where rows are taken out again."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, HiddenLayer
from elmgrove.detector.feedback import accept, reject, undo
from elmgrove.detector.history import Span
from elmgrove.federation.charter import Charter
from elmgrove.federation.member import Member, least_new_rows
from support.factories import normal_rows, trained_member
from support.laws import law_examples

HOUR = 3600.0
CHARTERS = {
    score: Charter("fans", Basis(HiddenLayer(3, 3, seed=5), 3, score=score))
    for score in ("distance", "loss")
}
ENOUGH = least_new_rows(CHARTERS["distance"].basis)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.integers(1, 2 * ENOUGH)),
        st.tuples(st.sampled_from(["take_out", "again", "by_hand"]), st.integers(0, 2)),
        st.tuples(st.sampled_from(["offer", "hour", "save", "crash", "undo"]), st.just(0)),
    ),
    min_size=15,
    max_size=40,
)


@dataclass
class Life:
    """A device, with the numbers of the rows that are in what it knows and in each upload."""

    score: str = "distance"
    rows: dict[int, np.ndarray] = field(default_factory=dict)
    hours: dict[int, int] = field(default_factory=dict)
    known: dict[int, tuple[np.ndarray, int]] = field(default_factory=dict)
    uploads: list[set[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.member, self.rng = CHARTERS[self.score].start("fan"), np.random.default_rng(1)
        self.now, self.seen = 0, 0
        # The rows that the last answer took out, and those that it learned.
        self.answered: tuple[list[int], list[int]] = [], []
        self.save(0)

    def learn(self, count: int) -> None:
        X, numbers = self.rng.normal(size=(count, 3)), self.seen + np.arange(count)
        self.member.detector.learn_many(X, self.now * HOUR + 1e-3 * numbers)
        self.seen += count
        for number, x in zip(numbers.tolist(), X, strict=True):
            self.known[number] = x, self.now
            self.rows[number], self.hours[number] = x, self.now

    def again(self, hour: int) -> None:
        self._relearn(hour, self.member.detector.learn_many)

    def by_hand(self, hour: int) -> None:
        detector = self.member.detector
        if back := self._relearn(hour, lambda X, times: accept(detector, rows=X, times=times)):
            self.answered = [], back

    def undo(self, _: int) -> None:
        out, learned = self.answered
        # A row that was learned again meanwhile would come back a second time.
        if self.member.detector.answers.undoable is None or self.rows.keys() & set(out):
            return
        undo(self.member.detector)
        for number in learned:
            del self.rows[number], self.hours[number]
        for number in out:
            self.rows[number], self.hours[number] = self.known[number]

    def _relearn(self, hour: int, learn: Callable[[np.ndarray, np.ndarray], object]) -> list[int]:
        """Learns what was taken out of an hour again, but for one row."""
        gone = [n for n, (_, when) in self.known.items() if when == hour and n not in self.rows]
        if len(gone) < 2:
            return []
        back = gone[:-1]
        learn(np.array([self.known[n][0] for n in back]), hour * HOUR + 1e-3 * np.array(back))
        for number in back:
            self.rows[number], self.hours[number] = self.known[number]
        return back

    def hour(self, _: int) -> None:
        self.now += 1

    def take_out(self, hour: int) -> None:
        gone = [number for number, when in self.hours.items() if when == hour]
        told = reject(self.member.detector, Span(hour * HOUR, (hour + 1) * HOUR))
        assert told.taken == len(gone)
        if gone:
            self.answered = gone, []
        for number in gone:
            del self.rows[number], self.hours[number]

    def save(self, _: int) -> None:
        self.saved = self.member.to_bytes(), dict(self.rows), dict(self.hours), self.answered

    def crash(self, _: int) -> None:
        blob, rows, hours, self.answered = self.saved
        self.member, self.rows, self.hours = Member.from_bytes(blob), dict(rows), dict(hours)

    def offer(self, _: int) -> None:
        before, missing = self.member.shared, self.member.rows_missing()
        offer = self.member.offer()
        self.save(0)
        # The same sums again tell nothing, even where the threshold went with the rows.
        if offer is None or (before is not None and offer.parts == before.parts):
            return
        assert missing == 0
        assert before is None or offer.epoch > before.epoch
        self.uploads.append(set(self.rows))
        X = np.array(list(self.rows.values()))
        wanted = trained_member(CHARTERS[self.score].start("central"), X)
        assert offer.evidence.close_to(wanted.detector.evidence, 1e-9)


@settings(max_examples=law_examples(200), deadline=None)
@given(STEPS, st.sampled_from(sorted(CHARTERS)))
def test_each_upload_has_enough_rows_that_no_other_had(
    plan: list[tuple[str, int]], score: str
) -> None:
    """So has every combination of uploads: those of the newest one in it."""
    life = Life(score)
    for step, number in plan:
        getattr(life, step)(number)
    known = set[int]()
    for upload in life.uploads:
        assert len(upload - known) >= ENOUGH
        known |= upload


def test_of_rows_that_came_and_went_two_uploads_do_not_show_the_one_that_stayed() -> None:
    member = CHARTERS["distance"].start("fan")
    X = np.random.default_rng(0).normal(size=(300, 3))
    member.detector.learn_many(X[:100], np.arange(100.0))
    first = member.offer()
    member.detector.learn_many(X[100:200], HOUR + np.arange(100.0))
    member.detector.learn_many(X[200:201], [2 * HOUR])
    reject(member.detector, Span(HOUR, 2 * HOUR))
    assert member.offer() == first
    # Which columns have few values is not known of the one any more.
    assert member.rows_missing() == ENOUGH
    member.detector.learn_many(X[201 : 201 + ENOUGH], 2 * HOUR + np.arange(1.0, ENOUGH + 1.0))
    second = member.offer()
    assert second.evidence.count - first.evidence.count == ENOUGH + 1
    assert second.epoch > first.epoch


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("by_hand", [True, False])
def test_rows_that_come_again_are_not_new(timed: bool, by_hand: bool) -> None:
    member = CHARTERS["distance"].start("fan")
    X, times = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300.0)
    member.detector.learn_many(X[:200], times[:200] if timed else None)
    first = member.offer()
    again, when = X[100:199], times[100:199] if timed else None
    if timed:
        reject(member.detector, Span(100.0, 200.0))
    member = Member.from_bytes(member.to_bytes())
    if by_hand:
        accept(member.detector, rows=again, times=when, instead=not timed)
    else:
        member.detector.learn_many(again, when)
    if not timed and not by_hand:
        assert member.rows_missing() == 0, "nobody can tell"
        return
    member = Member.from_bytes(member.to_bytes())
    assert member.rows_missing() == ENOUGH
    assert member.offer() == first
    new = times[200 : 200 + ENOUGH] if timed else None
    member.detector.learn_many(X[200 : 200 + ENOUGH], new)
    assert member.rows_missing() == 0
    assert member.offer() != first


def test_what_is_offered_without_a_guard_is_newer_though_no_row_came() -> None:
    member = trained_member(
        CHARTERS["distance"].start("fan"), normal_rows(0, 100, 3), np.arange(100.0)
    )
    first = member.offer(guarded=False)
    reject(member.detector, Span(0.0, 50.0))
    second = member.offer(guarded=False)
    assert second.epoch > first.epoch
    assert second.evidence.count == 50.0
    assert member.offer(guarded=False) == second
    assert Member.from_bytes(member.to_bytes()).shared == second


@pytest.mark.parametrize("taken", [0, 3])
def test_a_device_that_never_gave_anything_counts_what_is_left(taken: int) -> None:
    member = CHARTERS["distance"].start("fan")
    X = np.random.default_rng(0).normal(size=(ENOUGH, 3))
    member.detector.learn_many(X[:taken], np.arange(float(taken)))
    member.detector.learn_many(X[taken:], HOUR + np.arange(float(ENOUGH - taken)))
    reject(member.detector, Span(0.0, HOUR))
    assert (member.offer() is None) == (taken > 0)
    assert member.rows_missing() == (ENOUGH if taken else 0)
