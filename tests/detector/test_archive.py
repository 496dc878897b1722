"""A detector with patterns on disk: as it was at every stage, and nothing else is read."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from elmgrove import BadFile, Detector, Evidence, FixedThreshold, HiddenLayer
from elmgrove.detector.patterns import PatternRule
from elmgrove.detector.serialization import restore, snapshot
from elmgrove.detector.state import STATE_FORMAT
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.storage.sealed import seal, unseal
from support.golden import resealed
from support.patterns import INPUTS, mixed, rows_of
from support.places import GOLDEN

LAYER = HiddenLayer(INPUTS, 3, seed=2)
STATES = {
    "distance": GOLDEN / "state-patterns-2.elm",
    "loss": GOLDEN / "state-patterns-2-loss.elm",
}
CONTRIBUTIONS = {
    "distance": GOLDEN / "fan-2-patterns.evidence",
    "loss": GOLDEN / "fan-2-patterns-loss.evidence",
}


def member(name: str = "fan", **settings: Any) -> Member:
    rule = PatternRule(start_rows=60, join=1.0)
    return Member(name, Detector(LAYER, patterns=rule, **settings), merges=True)


def before_the_start(**settings: Any) -> Member:
    made = member(**settings)
    made.detector.learn_many(mixed(1, 40))
    return made


def after_the_start(**settings: Any) -> Member:
    made = member(**settings)
    made.detector.learn_many(mixed(1, 200))
    return made


def published(**settings: Any) -> Member:
    made = after_the_start(**settings)
    assert made.offer() is not None
    made.detector.learn_many(mixed(2, 9))
    return made


def joined(**settings: Any) -> Member:
    made = after_the_start(**settings)
    made.detector.model.adopt(rows_of(0, 7, 100))
    made.detector.model.tune()
    made.detector.learn_many(mixed(3, 30))
    assert [len(pattern.joined) for pattern in made.detector.model.own].count(1) == 1
    return made


def foreign(**settings: Any) -> Member:
    made = joined(**settings)
    for name, patterns in (("a", (0, 2)), ("b", (2, 3)), ("c", (1,))):
        other = member(name)
        for pattern in patterns:
            other.detector.model.patterns.first_rows = None
            other.detector.model.adopt(rows_of(pattern, 5, 80))
        made.receive(other.contribution())
    assert len(made.detector.model.foreign) == 2
    return made


STAGES: dict[str, Callable[..., Member]] = {
    stage.__name__: stage
    for stage in (*(member, before_the_start, after_the_start, published, joined, foreign),)
}


@pytest.mark.combinations
@pytest.mark.parametrize("stage", STAGES)
def test_a_state_is_read_as_it_was_written_and_goes_on_alike(stage: str) -> None:
    original = STAGES[stage](threshold=FixedThreshold(3.0))
    restored = Member.from_bytes(original.to_bytes())
    assert restored.to_bytes() == original.to_bytes()
    here, there = original.detector, restored.detector
    assert there.parts == here.parts
    assert there.model.places == here.model.places
    for row in np.vstack([mixed(11, 300), rows_of(1, 12, 10)]):
        one, other = here.observe(row), there.observe(row)
        assert (one.learned, one.pattern) == (other.learned, other.pattern)
        assert one.score == pytest.approx(other.score, rel=1e-9)
    assert [p.number for p in there.model.own] == [p.number for p in here.model.own]
    assert [p.learned for p in there.parts] == [p.learned for p in here.parts]


def test_what_was_received_stays_where_it_was_though_patterns_moved_on() -> None:
    me = foreign(threshold=FixedThreshold(9e9))
    places = me.detector.model.places
    for row in rows_of(4, 1, 20):
        me.detector.observe(row)
    model = me.detector.model
    assert model._received.places(model.own) != places
    assert Member.from_bytes(me.to_bytes()).detector.model.places == me.detector.model.places
    assert me.detector.model.places == places


# Sealed, but not by the rules


def altered(change: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]) -> bytes:
    return resealed(
        STATE_FORMAT,
        foreign().to_bytes(),
        lambda fields, arrays: change(fields["detector"]["patterns"], arrays),
    )


def test_unaltered_it_is_read() -> None:
    Member.from_bytes(altered(lambda fields, arrays: None))


PATTERN_FIELDS = ("rule", "next", "seen", "begun", "places", "own")
DAMAGES: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Any]] = {
    **{f"no {name}": lambda f, a, name=name: f.pop(name) for name in PATTERN_FIELDS},
    **{f"{name} = x": lambda f, a, name=name: f.update({name: "x"}) for name in PATTERN_FIELDS},
    "an unknown field": lambda f, a: f.update(more=1),
    "an unknown rule": lambda f, a: f["rule"].update(more=1),
    "a rule without sense": lambda f, a: f["rule"].update(join=-1.0),
    "no pattern": lambda f, a: f.update(own=[]),
    "two of one number": lambda f, a: f["own"][0].update(number=f["own"][1]["number"]),
    "a number to come": lambda f, a: f.update(next=1),
    "a place for nothing": lambda f, a: f["places"].append(None),
    "no place": lambda f, a: f["places"].pop(),
    "a place that is no pattern": lambda f, a: f["places"].__setitem__(0, 77),
    "squares of nobody": lambda f, a: a.update({"own.0.e": np.zeros(INPUTS)}),
    "an array too few": lambda f, a: a.pop("own.0.C"),
    "an array too many": lambda f, a: a.update({"own.9.C": np.zeros(6)}),
    "a total too short": lambda f, a: a.update({"own.0.total": np.zeros(2)}),
    "not finite": lambda f, a: a.update({"own.0.C": np.full((3, INPUTS), np.nan)}),
    "no such joined": lambda f, a: a.pop("own.0.joined.0.C"),
}


def one_model() -> Member:
    made = Member("fan", Detector(LAYER, window=3), merges=True)
    made.detector.learn_many(mixed(1, 700))
    for row in mixed(2, 20):
        made.detector.observe(row)
    return made


def gate(fields: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = fields["memory"]["gate"]
    return found


WIDE = np.zeros((1, 3 * INPUTS))
PLAIN_DAMAGES: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Any]] = {
    "a state that there is not": lambda f, a: gate(f)["progress"].update(state="sleeping"),
    "a counter below 0": lambda f, a: gate(f)["progress"].update(rows=-1),
    "a counter that is none": lambda f, a: gate(f)["progress"].update(flagged="x"),
    "a counter too few": lambda f, a: gate(f)["progress"].pop("calm"),
    "a counter too many": lambda f, a: gate(f)["progress"].update(rate=0.5),
    "a threshold that is none": lambda f, a: gate(f).update(limit="x"),
    "no clock": lambda f, a: gate(f)["recent"].pop("clock"),
    "more last rows than a window needs": lambda f, a: a.update(last_rows=np.zeros((3, INPUTS))),
    "last rows of another machine": lambda f, a: a.update(last_rows=np.zeros((2, INPUTS + 1))),
    "waiting rows of another machine": lambda f, a: a.update(waiting=np.zeros((2, INPUTS))),
    "more waiting rows than can wait": lambda f, a: a.update(waiting=np.repeat(WIDE, 513, 0)),
    "more waiting rows than were learned": lambda f, a: f.update(learned=1),
    "scores without their times": lambda f, a: a.update({"memory.gate.recent.scores": np.zeros(3)}),
}


def test_a_damaged_state_of_one_model_is_refused() -> None:
    blob = one_model().to_bytes()
    for damage, change in {"none": lambda f, a: None, **PLAIN_DAMAGES}.items():
        fields, arrays = unseal(STATE_FORMAT, blob)
        fields = json.loads(json.dumps(fields))
        change(fields["detector"], arrays)
        altered = seal(STATE_FORMAT, fields, arrays)
        if damage == "none":
            assert altered == Member.from_bytes(altered).to_bytes()
            continue
        with pytest.raises(BadFile):
            pytest.fail(f"{damage}: {Member.from_bytes(altered)}")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused(damage: str) -> None:
    with pytest.raises(BadFile):
        Member.from_bytes(altered(DAMAGES[damage]))


def test_every_truncation_and_flipped_bit_of_the_golden_state_is_refused() -> None:
    blob = STATES["distance"].read_bytes()
    for place in range(0, len(blob), 7):
        flipped = bytearray(blob)
        flipped[place] ^= 1 << place % 8
        for damaged in (blob[:place], bytes(flipped)):
            with pytest.raises(BadFile):
                Member.from_bytes(damaged)


# The golden files are what these devices write: all sums are exact in binary, so they are the
# same on every machine. A new version of the format gets new files beside them.

IDLE = np.array([[0.5, 0.25, 0.5], [0.25, 0.5, 0.25], [0.75, 0.5, 0.5], [0.5, 0.5, 0.75]])
BUSY = IDLE + 8.0
SCORES = pytest.mark.parametrize("score", ["distance", "loss"])


def golden(score: str, name: str, patterns: list[np.ndarray]) -> Member:
    layer = HiddenLayer(3, 2, weights="binary", seed=35)
    rule = PatternRule(start_rows=8, join=0.0, silhouette=0.5)
    made = Member(name, Detector(layer, score=score, patterns=rule, ridge=0.25), merges=True)
    made.detector.learn_many(np.vstack(patterns))
    return made


def golden_member(score: str) -> Member:
    """Two patterns and a foreign one; a third was joined to the second, a fourth to the first."""
    me = golden(score, "Lüfter 2", [IDLE, BUSY])
    model, recent = me.detector.model, me.detector.gate.recent
    for rows in (IDLE[:2] - 4.0, IDLE[:3] * [1.0, -1.0, 2.0]):
        model.adopt(rows)
    model.own[0].take_in(model.own.pop())
    model.own[1].take_in(model.own.pop())
    me.offer(guarded=False)
    me.receive(golden(score, "fan-3", [BUSY * -1.0, IDLE * 2.0]).contribution())
    # These are solved for, and so not the same to the last bit everywhere.
    for pattern, typical in zip(model.own, (0.5, np.inf), strict=True):
        pattern.typical = typical
    scores = [(when, index / 4.0) for index, (when, _) in enumerate(recent._scores)]
    known = {"level": None, "factor": 1.0, "scores": np.array(scores)}
    restore(recent, snapshot(recent) | known)
    return me


@SCORES
def test_the_golden_state_is_what_the_device_writes(score: str) -> None:
    blob = STATES[score].read_bytes()
    assert Member.from_bytes(blob).to_bytes() == blob == golden_member(score).to_bytes()


@SCORES
def test_golden_states_are_read(score: str) -> None:
    me = Member.from_bytes(STATES[score].read_bytes())
    assert me.detector.basis.score == score
    assert me.detector.patterns.silhouette == 0.5
    first, second = me.detector.model.own
    assert (first.number, second.number) == (1, 2)
    require_sums(first.model.evidence, IDLE)
    if score == "distance":
        assert first.model.evidence.centre.tolist() == IDLE[0].tolist()
    assert first.total.tolist() == IDLE.sum(axis=0).tolist()
    assert [(one.number, one.learned) for one in second.joined] == [(3, 2)]
    assert second.joined[0].total.tolist() == (IDLE[:2] - 4.0).sum(axis=0).tolist()
    assert [(one.number, one.learned) for one in first.joined] == [(4, 3)]
    assert [part.learned for part in me.detector.parts] == [4, 4, 2, 3]
    assert len(me.detector.model.places) == 2
    assert me.published is not None
    assert me.published.parts == me.detector.parts
    assert me.detector.gate.recent.ordered == [index / 4.0 for index in range(8)]


@SCORES
def test_the_golden_contribution_is_what_the_device_gives(score: str) -> None:
    blob = CONTRIBUTIONS[score].read_bytes()
    given = Contribution.from_bytes(blob)
    assert given.to_bytes() == blob == golden_member(score).contribution().to_bytes()
    assert (given.origin, given.epoch, given.evidence.count) == ("Lüfter 2", 13, 13.0)
    assert [part.count for part in given.parts] == [4.0, 4.0, 2.0, 3.0]
    require_sums(given.parts[1], BUSY)


def require_sums(evidence: Evidence, X: np.ndarray) -> None:
    """To the last bit the sums of these rows, as they are defined."""
    layer = evidence.basis.layer
    if evidence.basis.score == "loss":
        H = layer(X)
        assert evidence.U.tolist() == (H.T @ H).tolist()
        assert evidence.V.tolist() == (H.T @ X).tolist()
        return
    Y = X - evidence.centre
    assert evidence.C.tolist() == ((Y @ layer.alpha).T @ Y).tolist()
    assert evidence.s.tolist() == Y.sum(axis=0).tolist()
    assert evidence.e.tolist() == (Y**2).sum(axis=0).tolist()
