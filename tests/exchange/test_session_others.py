"""A device that asks others: the exchange chooses, and tells of them in groups."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import FalseAlarmRate
from elmgrove.detector.patterns import PatternRule
from elmgrove.errors import Refused
from elmgrove.exchange.base import Exchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.federation.comparison import compare_used, notable
from elmgrove.federation.selection import Named, Quality, SameGroup
from support.exchanges import ways_to
from support.factories import DISTANT, cloud

CHARTER = Charter("fans", DISTANT)
SOON = FalseAlarmRate(confidence=0.0)
#: Two kinds of devices, and how many rows each has.
FLEET = {"fan-1": (1, 600), "fan-2": (2, 600), "fan-3": (1, 500), "fan-4": (2, 700)}
Place = Callable[[str], Exchange]


def device(name: str, exchange: Any, kind: int, count: int = 600, **options: Any) -> Session:
    settings = {key: options.pop(key) for key in ("merged", "patterns") if key in options}
    made = Session(CHARTER.start(name, threshold=SOON, **settings), exchange, **options)
    made.detector.learn_many(cloud(kind, len(name) + count, count))
    return made


@pytest.fixture(params=["memory", "folder", "http on sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Four devices have been here."""
    with ways_to(request, tmp_path, CHARTER) as way:
        for name, (kind, count) in FLEET.items():
            device(name, way(name), kind, count).sync()
        yield way


def test_what_is_told_is_as_good_as_to_know_each_by_name(place: Place) -> None:
    me, named = device("fan-9", place("fan-9"), 3), CHARTER.start("fan-9", threshold=SOON)
    named.detector.learn_many(cloud(3, len("fan-9") + 600, 600))
    for name, (kind, count) in FLEET.items():
        shared = device(name, MemoryExchange(CHARTER), kind, count).member.offer()
        assert shared is not None
        named.receive(shared)
    report = me.sync()
    assert (report.devices, report.updated, report.refusal) == (len(FLEET), True, None)
    assert "uses fan-1, fan-2, fan-3, fan-4 (updated)" in str(report)
    assert not me.sync().updated
    # Each lends apart, so that the odd one is found among few as well.
    assert np.array_equal(me.detector.loan.C, named.detector.loan.C)
    rows = np.concatenate([cloud(kind, 99, 40) for kind in (1, 2, 4)])
    told, known = (
        [one.observe(row).known for row in rows] for one in (me.detector, named.detector)
    )
    assert {name for one in told for name in one} == {"fan-1, fan-3", "fan-2, fan-4"}
    same = sum(bool(here) == bool(there) for here, there in zip(told, known, strict=True))
    assert same >= 0.95 * len(rows)
    unlike = {one.name for one in notable(compare_used(me.member))}
    assert unlike & {None, "fan-1, fan-3", "fan-2, fan-4"}


def test_who_left_is_dropped_and_lends_no_more(place: Place) -> None:
    me = device("fan-9", place("fan-9"), 3)
    me.sync()
    loan = me.detector.loan
    leaving = device("fan-2", place("fan-2"), 2, guarded=False)
    leaving.leave()
    report = me.sync()
    assert (report.devices, report.updated) == (3, True)
    assert me.detector.loan != loan
    assert me.detector.observe(cloud(2, 1).mean(axis=0)).known == ("fan-4",)
    leaving.sync()
    assert me.sync().devices == 4


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    ("rule", "used"),
    [
        (Quality(tolerance=1.0), "fan-1, fan-3"),
        (Named(("fan-1", "fan-2")), "fan-1, fan-2"),
        (SameGroup(), "fan-1, fan-3"),
    ],
    ids=str,
)
def test_each_rule_works_as_a_federation_is_made_by_default(
    place: Place, rule: Any, used: str, merged: bool
) -> None:
    if isinstance(rule, Quality):
        for name in ("fan-5", "fan-6"):
            device(name, place(name), 1).sync()
        used += ", fan-5, fan-6"
    me = device("fan-9", place("fan-9"), 1, rule=rule, merged=merged)
    report = me.sync()
    report = report.then(me.sync())
    assert (report.refusal, report.sent) == (None, 600)
    assert report.others.partition(";")[0] == used
    if not isinstance(rule, Named):
        assert "left out: fan-2, " in report.others
        assert "fan-4, " in report.others
    assert not me.sync().updated


def test_one_model_of_several_patterns_tells_those_of_others_apart(place: Place) -> None:
    me = device("fan-9", place("fan-9"), 1, merged=True, patterns=PatternRule(2))
    assert me.sync().refusal is None
    assert (me.member.merged.devices, len(me.member.merged.parts)) == (4, 2)


def test_where_others_are_refused_it_still_contributes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise Refused("too many")

    exchange = place("fan-9")
    me = device("fan-9", exchange, 3)
    monkeypatch.setattr(exchange, "others", refused)
    report = me.sync()
    assert (report.refusal, report.sent, me.member.merged) == ("too many", 600, None)


def test_one_that_merged_asks_after_its_next_sync_and_the_other_way_round(place: Place) -> None:
    me = device("fan-9", place("fan-9"), 3, merged=True)
    me.sync()
    assert me.detector.received is not None
    for merges in (False, True):
        me.member.follow(merges=merges)
        assert me.sync().updated
        assert bool(me.member.merged.labels) is not merges
        assert (me.detector.received is not None) is merges
