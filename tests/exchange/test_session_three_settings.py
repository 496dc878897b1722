"""Single, multi-global and MLMG are settings of one thing: the same laws hold in each of them."""

from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from elmgrove import Basis, Detector, Evidence, HiddenLayer
from elmgrove.detector.patterns import PatternRule
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.exchange.base import Exchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.federation.member import Member
from elmgrove.federation.selection import Everyone, Rule, SameGroup
from support.agents import Start
from support.factories import member_in, trained, trained_member, write_rows
from support.laws import law_examples
from support.patterns import INPUTS, rows_of
from support.serving import serving

CHARTER = Charter(
    "fans", Basis(HiddenLayer(INPUTS, 3, activation="tanh", seed=2), INPUTS), merged=True
)
TWO = PatternRule(2, start_rows=40)
#: Enough that those of one kind are told to be by evidence.
ROWS = 600
#: What a device is told: its patterns, and which devices to merge.
SETTINGS: dict[str, tuple[PatternRule | None, Rule]] = {
    "single": (None, Everyone()),
    "multi-global": (None, SameGroup()),
    "MLMG of all": (TWO, Everyone()),
    "MLMG": (TWO, SameGroup()),
}
EACH = pytest.mark.parametrize("setting", SETTINGS)
#: Which kinds of rows each device sees; those with one model are better off with one of them.
KINDS = {"a": (1, 2), "b": (1, 2), "c": (2, 3), "d": (3, 1), "e": (3, 2)}
NAMES = sorted(KINDS)


def rows_at(name: str, patterns: PatternRule | None) -> np.ndarray:
    seed, kinds = NAMES.index(name), KINDS[name]
    if patterns is None:
        return rows_of(kinds[0], seed, ROWS)
    parts = np.vstack([rows_of(kind, seed, ROWS) for kind in kinds])
    return np.random.default_rng(seed).permutation(parts)


@cache
def state_of(setting: str, name: str) -> bytes:
    patterns, _ = SETTINGS[setting]
    member = trained_member(CHARTER.start(name, patterns=patterns), rows_at(name, patterns))
    return member.to_bytes()


def fleet(setting: str, names: list[str], exchange: Exchange) -> dict[str, Session]:
    rule = SETTINGS[setting][1]
    return {
        name: Session(Member.from_bytes(state_of(setting, name)), exchange, rule=rule)
        for name in names
    }


def settle(sessions: dict[str, Session], order: list[str]) -> None:
    for _ in range(2):
        for name in order:
            sessions[name].sync()
    assert not any(sessions[name].sync().updated for name in order)


def received(session: Session) -> Evidence:
    found = session.detector.received
    return Evidence.zero(CHARTER.basis) if found is None else found


TEST_ROWS = np.vstack([rows_of(kind, 99, 10) for kind in range(5)])


def alike(one: Session, other: Session) -> None:
    assert received(one).close_to(received(other), 1e-12)
    scores = (session.detector.score_many(TEST_ROWS) for session in (one, other))
    np.testing.assert_allclose(*scores, rtol=1e-6, atol=1e-9)


@EACH
@examples(max_examples=law_examples(8), deadline=None)
@given(
    way=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(["syncs", "syncs twice", "leaves"])),
        max_size=8,
    ),
    order=st.permutations(NAMES),
    gone=st.sets(st.sampled_from(NAMES), max_size=3),
)
def test_whatever_came_twice_and_went_the_models_are_those_of_who_is_there(
    setting: str, way: list[tuple[str, str]], order: list[str], gone: set[str]
) -> None:
    """Idempotence, leaving and coming back, and order, in one law."""
    sessions = fleet(setting, NAMES, MemoryExchange(CHARTER))
    for name, does in way:
        for _ in range(2 if does == "syncs twice" else 1):
            (sessions[name].leave if does == "leaves" else sessions[name].sync)()
    for name in gone:
        sessions[name].leave()
    there = [name for name in order if name not in gone]
    settle(sessions, there)
    never = fleet(setting, there, MemoryExchange(CHARTER))
    settle(never, sorted(there))
    for name in there:
        alike(sessions[name], never[name])


@EACH
def test_a_state_goes_on_where_it_was(setting: str, tmp_path: Path) -> None:
    exchange = MemoryExchange(CHARTER)
    sessions = fleet(setting, NAMES, exchange)
    settle(sessions, NAMES)
    rule = SETTINGS[setting][1]
    for session in sessions.values():
        again = Session(Member.from_bytes(session.member.to_bytes()), exchange, rule=rule)
        assert again.member.merged == session.member.merged
        assert not again.sync().updated
        alike(again, session)


@pytest.mark.parametrize(
    ("before", "setting"),
    [
        (before, setting)
        for before, setting in permutations(SETTINGS, 2)
        # How many models a device has is decided when it is new.
        if SETTINGS[before][0] == SETTINGS[setting][0]
    ],
)
def test_another_setting_is_taken_up_at_the_next_sync(before: str, setting: str) -> None:
    exchange = MemoryExchange(CHARTER)
    sessions = fleet(before, NAMES, exchange)
    settle(sessions, NAMES)
    rule = SETTINGS[setting][1]
    changed = {name: Session(one.member, exchange, rule=rule) for name, one in sessions.items()}
    settle(changed, NAMES)
    expected = fleet(setting, NAMES, MemoryExchange(CHARTER))
    settle(expected, NAMES)
    for name in NAMES:
        alike(changed[name], expected[name])


# Agents


def auc(detector: Any, kind: int) -> float:
    """How well it tells rows from those whose second half of sensors belongs to other rows."""
    normal, anomalous = rows_of(kind, 400, 200), rows_of(kind, 500, 200)
    anomalous[:, INPUTS // 2 :] = np.roll(anomalous[:, INPUTS // 2 :], 1, axis=0)
    scores = detector.score_many(np.vstack([normal, anomalous]))
    return float(roc_auc_score(np.repeat([0, 1], 200), scores))


def test_agents_with_two_patterns_each(
    device: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one is a process, as users have it; the others are here, which is quicker."""
    monkeypatch.chdir(tmp_path)
    machines = {}
    with serving(f"{tmp_path}/store.db") as server:
        told = {"exchange": f"{server.base}/fans", "token": server.found(CHARTER).token}
        told |= {"merge": "group", "patterns": "auto", "verdicts": ""}
        for seed, (name, kinds) in enumerate({"a": (1, 2), "b": (3, 4), "c": (3, 4)}.items()):
            rows = np.vstack([rows_of(kind, seed, ROWS) for kind in kinds])
            machines[name] = np.random.default_rng(seed).permutation(rows)
            source = write_rows(Path(f"{name}.csv"), machines[name])
            if name != "c":
                Agent(Settings(name=name, source=str(source), state=f"{name}.elm", **told)).run()
        one = device("c", **told)
        assert one.end() == 0, one.log
    member = member_in("c.elm")
    assert member.detector.patterns is not None
    assert (member.merged.devices, len(member.merged.parts)) == (1, 2)
    assert (len(member.detector.model.own), len(member.detector.model.foreign)) == (2, 0)
    whole = trained(Detector(CHARTER.basis.layer), np.vstack(list(machines.values())))
    for kind in (3, 4):
        assert auc(member.detector, kind) > auc(whole, kind) + 0.1
