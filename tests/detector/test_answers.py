"""Answers count: a fault takes out all that was learned since, and any answer can be undone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadFile, BadInput, Detector, Evidence, PatternRule
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.feedback import accept, reject, undo
from elmgrove.detector.history import Span
from elmgrove.detector.state import pack_detector, unpack_detector
from elmgrove.storage.sealed import unpacking
from support.laws import law_examples

MINUTE = 60.0
#: Rows between the first anomalous ones are learned: there is no event yet.
SLOW = AlarmRule(k=8, n=200, cooldown=200)
KINDS: dict[str, dict[str, Any]] = {
    "distance": {},
    "window": {"window": 3},
    "loss": {"score": "loss"},
    "patterns": {"patterns": PatternRule()},
    "forgetting": {"forgetting": 0.999},
}


class Machine:
    """A machine whose rows a detector observes, one a minute or without times."""

    def __init__(self, timed: bool = True, **settings: Any) -> None:
        self.rng, self.timed, self.seen = np.random.default_rng(0), timed, 0
        X = self.rows(1500)
        self.detector = Detector.for_data(X, **{"window": 1, "alarm": SLOW, **settings})
        self.detector.learn_many(X)
        # For each anomalous row: what was learned by then.
        self.marks: list[tuple[int, Evidence]] = []

    def rows(self, count: int) -> np.ndarray:
        load, noise = self.rng.normal(size=(count, 1)), self.rng.normal(size=(count, 4))
        return load * [100.0, 5.0, 0.0, 2.0] + noise * [5.0, 0.5, 1.0, 0.1]

    def observe(self, count: int, *, fault: float = 0.0, each: int = 1) -> None:
        """Lets rows come, of which each so many has a fault."""
        for number, row in enumerate(self.rows(count)):
            wrong = [0.0, fault * (number % each == 0), 0.0, 0.0]
            time = self.seen * MINUTE if self.timed else None
            verdict = self.detector.observe(row + wrong, time)
            if verdict.anomalous:
                self.marks.append((self.detector.learned, self.detector.evidence))
            self.seen += 1

    def open_event(self, each: int = 9) -> int:
        """Lets a fault come and go until there is an event; gives the rows learned since."""
        while self.detector.events.open is None:
            self.observe(1, fault=60.0)
            if self.detector.events.open is None:
                self.observe(each * self.detector.window - 1)
        return self.detector.learned - self.marks[-self.detector.events.rule.k][0]

    def restart(self) -> None:
        """Saves the detector, and loads it again."""
        packed = pack_detector(self.detector)
        self.detector = unpack_detector(*packed)
        assert pack_detector(self.detector)[0] == packed[0]


@pytest.mark.combinations
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_takes_out_all_that_was_learned_since_the_event_began(
    kind: str, timed: bool
) -> None:
    machine = Machine(timed, **KINDS[kind])
    machine.observe(100)
    since = machine.open_event()
    (_, before), learned = machine.marks[-SLOW.k], machine.detector.learned
    assert since > 30
    if kind == "patterns":
        # Nobody knows which of them learned which row: only what was learned in the event goes.
        before, since = machine.detector.evidence, 0
    machine.restart()
    machine.observe(600, fault=60.0, each=3)
    detector = machine.detector
    assert detector.events.open is not None
    assert detector.learned == learned, "nothing is learned in an event"
    told = reject(detector)
    assert (told.event, told.taken, told.exact) == (1, since, True)
    assert not since or f"{since} rows learned were taken out, exactly" in str(told)
    assert detector.evidence.close_to(before, 1e-9)
    assert len(detector.quarantine) == 0


def test_a_fault_is_asked_about_once_and_the_event_says_what_was_answered() -> None:
    machine = Machine()
    machine.observe(100)
    machine.observe(150, fault=60.0)
    detector = machine.detector
    watch = detector.drift
    assert watch.report is not None
    reject(detector, by="anna", at=1.7e9)
    assert watch.report is None
    for _ in range(3):
        machine.observe(100, fault=60.0)
        # Long enough to begin to look for another change, too short to end the event.
        machine.observe(40)
        machine.restart()
        detector = machine.detector
        assert detector.events.open is not None
        assert detector.events.open.number == 1
        assert detector.drift.report is None
    assert "answered: a fault (anna, 2023-11-14 22:13 UTC)" in str(detector.events.open)
    machine.observe(2000)
    assert detector.events.open is None
    assert "answered: a fault" in str(detector.events.closed[-1])


def test_without_an_open_event_the_last_one_is_meant_once() -> None:
    machine = Machine()
    machine.observe(100)
    since = machine.open_event()
    machine.observe(60, fault=60.0, each=3)
    machine.observe(1200)
    detector = machine.detector
    assert detector.events.open is None
    assert len(detector.events.closed) == 1
    before = detector.learned
    told = reject(detector)
    assert (told.event, told.taken) == (1, since)
    assert detector.evidence.count == before - told.taken
    machine.observe(1, fault=60.0)
    again = reject(detector)
    assert (again.rows, again.taken) == (1, 0)
    assert "event 1 was answered before: a fault" in str(again)
    assert "No row waited; nothing learned was taken out" in str(reject(detector))
    assert undo(detector).rows == 1


def test_accept_and_reject_of_one_event_say_what_was_answered_before() -> None:
    machine = Machine()
    machine.observe(100)
    machine.observe(50, fault=60.0)
    detector = machine.detector
    reject(detector, by="anna")
    machine.observe(20, fault=60.0)
    told = accept(detector, by="bert")
    assert (told.rows, told.event) == (20, 1)
    assert "event 1 was answered before: a fault (anna)" in str(told)
    assert detector.events.open is None
    assert [(one.action, one.by, one.event) for one in detector.answers.given] == [
        ("reject", "anna", 1),
        ("accept", "bert", 1),
    ]
    assert "event 1 was answered before: fine (bert)" in str(reject(detector))


def test_an_event_can_be_named_by_its_number() -> None:
    machine = Machine(alarm=AlarmRule(k=3, n=12, cooldown=12))
    since = []
    for _ in range(3):
        machine.observe(100)
        since.append(machine.open_event(each=4))
    machine.observe(100)
    detector = machine.detector
    assert len(detector.events.closed) == 3
    told = reject(detector, event=2)
    assert (told.event, told.taken) == (2, since[1])
    assert told.taken == 6
    assert [one.answered[:7] for one in detector.events.closed] == ["", "a fault", ""]
    first, second, third = detector.events.closed
    waiting = [one.time or 0.0 for one in detector.quarantine.waiting]
    assert not [time for time in waiting if second.begin <= time <= (second.end or 0.0)]
    assert [time for time in waiting if first.begin <= time <= (first.end or 0.0)]
    assert accept(detector, event=3).rows == third.rows
    with pytest.raises(BadInput, match="no event 9"):
        reject(detector, event=9)
    with pytest.raises(BadInput, match="in one way"):
        reject(detector, Span(0.0, 1.0), event=2)


def test_an_event_that_ended_is_answered_without_ending_the_open_one() -> None:
    machine = Machine(alarm=AlarmRule(cooldown=10))
    machine.observe(100)
    machine.observe(5, fault=60.0)
    machine.observe(100)
    machine.observe(5, fault=60.0)
    detector = machine.detector
    (first,) = detector.events.closed
    assert accept(detector, event=first.number).rows == first.rows
    assert detector.events.open is not None
    assert not detector.events.open.answered
    assert accept(detector, Span(0.0, 10.0)).rows == 0
    assert undo(detector).rows == first.rows, "what learned nothing is no answer"


# Undone


@pytest.mark.combinations
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ["accept", "reject", "instead"])
def test_an_answer_that_is_undone_at_once_has_changed_nothing(
    answer: str, kind: str, timed: bool
) -> None:
    machine = Machine(timed, **KINDS[kind])
    machine.observe(100)
    machine.open_event()
    machine.observe(120, fault=60.0)
    detector = machine.detector
    # The newest that there can be, not one that is a few rows old.
    detector.gate.expire()
    before, evidence, threshold = pack_detector(detector), detector.evidence, detector.threshold
    report, waiting = str(detector.drift.report), len(detector.quarantine)
    told = reject(detector) if answer == "reject" else accept(detector, instead=answer != "accept")
    if (answer, kind) != ("reject", "patterns"):
        assert not detector.evidence.close_to(evidence, 1e-9)
    machine.restart()
    detector = machine.detector
    undone = undo(detector)
    assert (undone.rows, undone.event) == (waiting, told.event)
    assert detector.evidence.close_to(evidence, 1e-9)
    assert detector.learned - detector.taken == before[0]["learned"]
    assert detector.threshold == pytest.approx(threshold)
    assert detector.state == before[0]["memory"]["gate"]["progress"]["state"]
    assert str(detector.drift.report) == report
    assert len(detector.quarantine) == waiting
    assert detector.events.open is not None
    assert detector.events.open.answered == ""
    machine.restart()
    with pytest.raises(BadInput, match="no answer to undo"):
        undo(machine.detector)


def test_an_event_that_undo_opened_again_ends_with_normal_rows() -> None:
    machine = Machine()
    machine.open_event()
    detector = machine.detector
    accept(detector)
    undo(detector)
    assert detector.events.open is not None
    machine.observe(SLOW.calm + 1)
    assert detector.events.open is None


@pytest.mark.parametrize("name", ["recent", "progress", "drift", "waiting"])
@pytest.mark.parametrize("wrong", [-1, "x", {}, [None]], ids=str)
def test_what_undo_would_go_back_to_is_checked_when_it_is_read(name: str, wrong: Any) -> None:
    machine = Machine()
    machine.observe(100)
    machine.observe(150, fault=60.0)
    accept(machine.detector)
    fields, arrays = pack_detector(machine.detector)
    undoable = fields["memory"]["answers"]["undoable"]
    assert undoable[name] is not None
    undoable[name] = wrong
    with pytest.raises(BadFile), unpacking("a state"):
        unpack_detector(fields, arrays)


@settings(max_examples=law_examples(60), deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    timed=st.booleans(),
    answer=st.sampled_from(["accept", "reject", "instead", "span"]),
    steps=st.lists(
        st.tuples(st.sampled_from(["normal", "fault", "learn", "restart"]), st.integers(1, 150)),
        max_size=6,
    ),
)
def test_law_what_was_learned_since_an_answer_stays_when_it_is_undone(
    kind: str, timed: bool, answer: str, steps: list[tuple[str, int]]
) -> None:
    machine = Machine(timed, **KINDS[kind])
    machine.observe(90)
    machine.open_event()
    machine.observe(30, fault=60.0, each=3)
    detector = machine.detector
    before, kept = detector.evidence, detector.learned - detector.taken
    if answer == "span":
        reject(detector, Span(50 * MINUTE, 120 * MINUTE))
    elif answer == "reject":
        reject(detector)
    else:
        accept(detector, instead=answer == "instead")
    answered, learned = detector.evidence, detector.learned
    for step, rows in steps:
        if step == "learn":
            times = (machine.seen + np.arange(rows)) * MINUTE if timed else None
            machine.detector.learn_many(machine.rows(rows), times)
            machine.seen += rows
        elif step == "restart":
            machine.restart()
        else:
            machine.observe(rows, fault=60.0 * (step == "fault"), each=2)
    detector = machine.detector
    since = detector.learned - learned
    if not detector.answers.undoable:
        return
    now = detector.evidence
    undo(detector)
    assert detector.learned - detector.taken == kept + since
    # By sums: before, and what was learned since; older rows are forgotten as more come.
    faded = detector.model.forgetting**since
    if kind == "forgetting":
        return_to = now - answered.weighted(faded) + before.weighted(faded)
    else:
        return_to = now - answered + before
    assert detector.evidence.count == pytest.approx(return_to.count)
    assert detector.evidence.close_to(return_to, 1e-6)
    machine.restart()


def test_what_was_put_together_since_cant_be_undone_and_says_so() -> None:
    machine = Machine()
    machine.observe(100)
    machine.observe(60, fault=60.0)
    accept(machine.detector)
    machine.detector.increments.join()
    with pytest.raises(BadInput, match="can't be undone any more"):
        undo(machine.detector)
