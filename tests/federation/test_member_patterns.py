"""Devices with patterns in a federation: each row counted once, nobody's few rows shown."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from elmgrove import BadFile, BadInput, Basis, Evidence, HiddenLayer, Mismatch, NotAdmissible
from elmgrove.detector.feedback import accept
from elmgrove.detector.patterns import MOST_PARTS, PatternRule
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import EVIDENCE_FORMAT, Contribution, Ledger
from elmgrove.federation.member import Member, least_new_rows
from elmgrove.federation.merged import Merged
from elmgrove.storage.sealed import seal, unseal
from support.factories import evidence_of
from support.fleet_machine import CHARTER as SMALL
from support.fleet_machine import LEAST as SMALL_LEAST
from support.fleet_machine import NAMES, Device, FleetOnMemory, InFolder
from support.laws import law_examples
from support.patterns import INPUTS, mixed, rows_of

CHARTER = Charter("fans", Basis(HiddenLayer(INPUTS, 3, seed=2), INPUTS), merged=True)
LEAST = least_new_rows(CHARTER.basis)
RULE = PatternRule(start_rows=40, join=0.1, most=MOST_PARTS)


def member(name: str = "fan", rows: np.ndarray | None = None, **settings: Any) -> Member:
    made = CHARTER.start(name, **{"patterns": RULE, **settings})
    if rows is not None:
        made.detector.learn_many(rows)
    return made


def evidence_in(X: np.ndarray) -> Evidence:
    return evidence_of(X, CHARTER.basis)


# Contributions


def test_a_contribution_has_the_evidence_of_each_pattern() -> None:
    me = member(rows=mixed(1, 100))
    given = me.contribution()
    assert given.parts == tuple(part.evidence for part in me.detector.parts)
    assert given.evidence == me.detector.evidence
    assert Contribution.from_bytes(given.to_bytes()) == given
    alone = member(rows=mixed(1, 30)).contribution()
    assert alone.parts == (alone.evidence,)


def test_a_contribution_has_at_least_one_part_and_no_more_than_are_taken() -> None:
    one, other = member(rows=mixed(1, 100)).contribution().parts
    assert Contribution("fan", 9, (one, other)).evidence == one + other
    many = (other,) * MOST_PARTS
    assert Contribution("fan", 9, many).evidence == Evidence.sum(many)
    for parts in ((), (*many, other)):
        with pytest.raises(BadInput, match="1 to 16 parts"):
            Contribution("fan", 9, parts)


def test_parts_of_different_bases_make_no_contribution() -> None:
    mine = evidence_in(mixed(1, 20))
    foreign = Evidence.zero(Basis(HiddenLayer(INPUTS, 2, seed=99), INPUTS))
    with pytest.raises(Mismatch):
        Contribution("fan", 9, (mine, foreign))


@pytest.mark.parametrize("count", [0, 1, MOST_PARTS + 1])
def test_a_file_with_another_number_of_patterns_is_refused(count: int) -> None:
    fields, arrays = unseal(EVIDENCE_FORMAT, member(rows=mixed(1, 100)).contribution().to_bytes())
    fields["patterns"] = fields["patterns"][:1] * count
    arrays = {
        f"pattern.{n}.{name}": arrays[f"pattern.0.{name}"] for n in range(count) for name in "UV"
    }
    with pytest.raises(BadFile):
        Contribution.from_bytes(seal(EVIDENCE_FORMAT, fields, arrays))


def lie() -> Contribution:
    """Parts of which one is no evidence, though the sum is."""
    good, more = evidence_in(mixed(1, 80)), evidence_in(mixed(2, 20))
    parts = (good + more, Evidence.zero(CHARTER.basis) - more)
    return Contribution("liar", 80, parts)


@pytest.mark.parametrize("patterns", [None, RULE], ids=["one model", "patterns"])
def test_each_part_must_be_admissible(patterns: PatternRule | None) -> None:
    me = member(rows=mixed(3, 100), patterns=patterns)
    honest = member("honest", mixed(4, 100)).contribution()
    state = me.to_bytes()
    with pytest.raises(NotAdmissible, match="liar"):
        me.receive(lie())
    assert me.to_bytes() == state
    (refused,) = me.receive_all([honest, lie()])
    assert isinstance(refused, NotAdmissible)
    assert [held.origin for held in me.ledger] == ["honest"]
    with pytest.raises(NotAdmissible):
        MemoryExchange(CHARTER).publish(lie())


def test_a_sum_by_groups_travels_and_says_that_they_were_told_apart() -> None:
    one, other = evidence_in(rows_of(0, 1, 50)), evidence_in(rows_of(1, 1, 50))
    merged = Merged("fans", 3, 2, (one, other), apart=True)
    assert (merged.received, merged.evidence) == ((one, other), one + other)
    assert Merged.from_bytes(merged.to_bytes()) == merged
    alone = Merged("fans", 3, 1, (one,), apart=True)
    assert Merged.from_bytes(alone.to_bytes()) == alone != Merged("fans", 3, 1, (one,))
    for parts in ((), (one, other)):
        with pytest.raises(BadInput, match="told apart"):
            Merged("fans", 3, 2, parts)


# Hearing


def test_order_repetition_and_forgetting_do_not_show() -> None:
    said = [member(n, mixed(seed, 90, 3)).contribution() for seed, n in enumerate("abc")]
    early = member("a", mixed(0, 50, 3)).contribution()
    plain, other = member(rows=mixed(9, 90)), member(rows=mixed(9, 90))
    for entry in said:
        plain.receive(entry)
    extra = member("d", mixed(7, 90, 4)).contribution()
    for entry in [early, *said[::-1], extra, *said, early]:
        other.receive(entry)
        other = Member.from_bytes(other.to_bytes())
    assert other.forget("d")
    assert other.to_bytes() == plain.to_bytes()
    assert list(other.ledger) == list(Ledger(said))
    X = mixed(5, 50, 4)
    np.testing.assert_array_equal(other.detector.score_many(X), plain.detector.score_many(X))
    for name in "abc":
        plain.forget(name)
    np.testing.assert_array_equal(
        plain.detector.score_many(X), member(rows=mixed(9, 90)).detector.score_many(X)
    )


# The upload guard


def test_nothing_is_offered_before_it_is_decided_how_many_patterns_there_are() -> None:
    me = member(rows=mixed(1, 39))
    assert least_new_rows(CHARTER.basis) < 39
    assert me.rows_missing() == 1
    assert me.offer() is None
    me.detector.learn_one(mixed(2, 1)[0])
    assert me.rows_missing() == 0
    offered = me.offer()
    assert len(offered.parts) == 2


def test_each_pattern_waits_for_rows_of_its_own() -> None:
    me = member(rows=mixed(1, 100))
    first = me.offer()
    me.detector.learn_many(rows_of(0, 5, LEAST))
    me.detector.learn_many(rows_of(1, 5, LEAST - 1))
    second = me.offer()
    assert sum(new == old for new, old in zip(second.parts, first.parts, strict=True)) == 1
    assert second.evidence.count == 100 + LEAST
    assert me.rows_missing() == 1
    me.detector.learn_many(rows_of(1, 6, 1))
    assert me.offer() == me.contribution()
    assert me.rows_missing() == 0


class Guarded(RuleBasedStateMachine):
    """A device whose patterns come and join, and that offers whenever it likes.

    The test knows which rows are in which pattern, and so what every upload is made of.
    """

    def __init__(self) -> None:
        super().__init__()
        self.me = member(patterns=PatternRule(start_rows=12, join=0.2, most=16))
        self.rows: list[np.ndarray] = []
        self.inside: dict[int, list[int]] = {0: []}
        self.uploads: list[list[frozenset[int]]] = []
        self.promoted = 0

    @property
    def model(self) -> Any:
        return self.me.detector.model

    def learn_row(self, x: np.ndarray) -> None:
        before = {part.number: part.learned for part in self.me.detector.parts}
        self.me.detector.learn_one(x)
        self.rows.append(x)
        after = {part.number: part.learned for part in self.me.detector.parts}
        if after.keys() == before.keys():
            (grown,) = (number for number in after if after[number] > before[number])
            self.inside[grown].append(len(self.rows) - 1)
        else:
            self.find_out(after)

    def find_out(self, learned: dict[int, int]) -> None:
        """After the start: which of the first rows are where, by their centroids."""
        middles = {p.number: p.centroid for p in self.model.own}
        self.inside = {number: [] for number in learned}
        for index, x in enumerate(self.rows):
            nearest = min(middles, key=lambda n: float(np.square(x - middles[n]).sum()))
            self.inside[nearest].append(index)
        event(f"split into {len(learned)}")

    @initialize(decided=st.booleans())
    def begin(self, decided: bool) -> None:
        for pattern in (0, 1):
            self.learn(pattern, 9 if decided else 4, 1)

    @rule(
        pattern=st.integers(0, 2), count=st.sampled_from([1, 3, LEAST, 20]), seed=st.integers(0, 99)
    )
    def learn(self, pattern: int, count: int, seed: int) -> None:
        for x in rows_of(pattern, seed, count):
            self.learn_row(x)
        if count == 20:
            self.tune()

    @precondition(lambda self: len(self.me.detector.parts) < MOST_PARTS)
    @precondition(lambda self: self.model.patterns.first_rows is None)
    @rule(known=st.booleans(), count=st.sampled_from([2, LEAST, 20]))
    def promote(self, known: bool, count: int) -> None:
        """A new pattern; sometimes like one that is known, so that it will be joined."""
        self.promoted += 1
        X = rows_of(0 if known else 2 + self.promoted, 1000 + self.promoted, count)
        for x in X:
            self.me.detector.quarantine.add(x)
        number = self.model.patterns.next_number
        assert accept(self.me.detector).rows == count
        self.inside[number] = list(range(len(self.rows), len(self.rows) + count))
        self.rows += list(X)
        if known:
            self.tune()

    @rule()
    def tune(self) -> None:
        before = len(self.model.own)
        self.model.tune()
        if before != len(self.model.own):
            event("joined")

    @rule()
    def reload(self) -> None:
        self.me = Member.from_bytes(self.me.to_bytes())

    @rule()
    def offer(self) -> None:
        missing = self.me.rows_missing()
        before = self.me.shared
        offered = self.me.offer()
        assert (offered is None or offered == before) or missing == 0
        assert self.me.rows_missing() > 0 or self.me.offer() == offered
        if offered is None or self.me.published is None:
            return
        event("offered")
        upload = []
        for part, given in zip(self.me.published.parts, offered.parts, strict=True):
            rows = self.inside[part.number][: part.learned]
            assert given.close_to(evidence_in(np.array([self.rows[index] for index in rows])))
            upload.append(frozenset(rows))
        assert len(frozenset().union(*upload)) == sum(map(len, upload)) == offered.evidence.count
        self.uploads.append(upload)

    @rule()
    def each_row_is_counted_once(self) -> None:
        evidence = self.me.detector.evidence
        assert evidence.count == self.me.detector.learned == len(self.rows)
        assert evidence.close_to(evidence_in(np.array(self.rows)))

    def teardown(self) -> None:
        self.each_row_is_counted_once()
        self.offer()
        shown = {rows for upload in self.uploads for rows in upload}
        for one in shown:
            for other in shown - {one}:
                assert len(one ^ other) >= LEAST
        # Nested or apart: so what can be computed from all of them are the steps between.
        for one in shown:
            chain = sorted((other for other in shown if other & one), key=len)
            assert all(small < large for small, large in pairwise(chain))


Guarded.TestCase.settings = settings(
    max_examples=law_examples(40), stateful_step_count=25, deadline=None
)
TestGuarded = Guarded.TestCase


# Fleets


class MixedFleet(FleetOnMemory):
    """Devices with one model and with several, in one federation; see ``FleetOnMemory``."""

    @precondition(lambda self: len(self.devices) < len(NAMES))
    @rule()
    def new_device(self) -> None:
        name = NAMES[len(self.devices)]
        rule = PatternRule(start_rows=SMALL_LEAST, silhouette=-1.0, join=0.3)
        patterns = None if len(self.devices) == 1 else rule
        self.devices[name] = Device(SMALL.start(name, patterns=patterns))
        self.devices[name].back_up()

    def require_what_is_held(self, device: Device) -> None:
        every = self.exchange.entries()
        entries = [entry for entry in every if entry.origin != device.member.name]
        counts = [entry.evidence.count for entry in entries if isinstance(entry, Contribution)]
        received = device.member.detector.received
        assert (0.0 if received is None else received.count) == sum(counts)

    @rule()
    def settle(self) -> None:
        self.let_everybody_hear()
        for device in self.inside:
            others = [other.given for other in self.inside if other is not device]
            detector = device.member.detector
            self.require_sum(detector.evidence, [device.rows])
            self.require_sum(detector.received, [rows for rows in others if rows is not None])
            if detector.patterns is not None:
                event(f"{len(detector.model.own)} own, {len(detector.model.foreign)} foreign")

    def require_sum(self, evidence: Evidence | None, parts: list[np.ndarray]) -> None:
        expected = evidence_of(np.vstack([np.empty((0, 3)), *parts]), SMALL.basis)
        assert (evidence or Evidence.zero(SMALL.basis)).close_to(expected, 1e-9)


class MixedFleetOnFolder(InFolder, MixedFleet):
    """A fleet of devices with and without patterns that exchange files in a folder."""


for machine in (MixedFleet, MixedFleetOnFolder):
    machine.TestCase.settings = settings(
        max_examples=law_examples(15), stateful_step_count=15, deadline=None
    )
TestMixedFleet = MixedFleet.TestCase
TestMixedFleetOnFolder = MixedFleetOnFolder.TestCase


def test_on_digits_cooperation_costs_little_and_adds_what_the_peers_know() -> None:
    digits = load_digits()
    X, y = digits.data / 16.0, digits.target
    held_out = np.random.default_rng(0).random(len(X)) < 0.3
    charter = Charter("digits", Basis(HiddenLayer(64, 16, seed=1), 64), merged=True)
    exchange = MemoryExchange(charter)
    sessions = {}
    for known in ((0, 1), (2, 3), (4, 5), (6, 7)):
        me = charter.start(f"device-{known[0]}", patterns=PatternRule(start_rows=100))
        me.detector.learn_many(X[np.isin(y, known) & ~held_out])
        sessions[known] = Session(me, exchange)
    rows, truth = X[held_out], y[held_out]
    anomalous = truth >= 8

    def auc(known: tuple[int, int], own: bool) -> float:
        judged = anomalous | (np.isin(truth, known) == own)
        scores = sessions[known].detector.score_many(rows[judged])
        return float(roc_auc_score(anomalous[judged], scores))

    alone = {known: (auc(known, True), auc(known, False)) for known in sessions}
    for _ in range(2):
        for session in sessions.values():
            session.sync()
    for known, (own, peers) in alone.items():
        assert auc(known, True) > own - 0.05
        # Rows that light a pixel which hardly any other does are held back.
        assert auc(known, False) > peers + 0.38
