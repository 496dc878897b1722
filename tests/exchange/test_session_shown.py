"""A device of a federation that shows sums alone: told of all others at once, however few."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import FalseAlarmRate
from elmgrove.detector.patterns import PatternRule
from elmgrove.errors import Refused
from elmgrove.exchange.http import HttpExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.federation.selection import Named, Quality, SameGroup
from elmgrove.federation.similarity import compare_used
from support.factories import DISTANT, cloud
from support.serving import serving

CHARTER = Charter("fans", DISTANT)
SOON = FalseAlarmRate(confidence=0.0)
#: Two kinds of devices, and how many rows each has.
FLEET = {"fan-1": (1, 600), "fan-2": (2, 600), "fan-3": (1, 500), "fan-4": (2, 700)}


def device(name: str, exchange: Any, kind: int, count: int = 600, **options: Any) -> Session:
    settings = {key: options.pop(key) for key in ("merged", "patterns") if key in options}
    made = Session(CHARTER.start(name, threshold=SOON, **settings), exchange, **options)
    made.detector.learn_many(cloud(kind, len(name) + count, count))
    return made


class Place:
    """A server, and devices on it."""

    def __init__(self, base: str, token: str) -> None:
        self._base, self._token = base, token
        self.opened: list[HttpExchange] = []

    def __call__(self, name: str) -> HttpExchange:
        self.opened.append(HttpExchange(f"{self._base}/fans", name, token=self._token))
        return self.opened[-1]


@pytest.fixture(name="place")
def place_fixture(tmp_path: Path) -> Iterator[Place]:
    with serving(f"sqlite:///{tmp_path / 'exchange.db'}") as server:
        place = Place(server.base, server.found(CHARTER).token)
        for name, (kind, count) in FLEET.items():
            device(name, place(name), kind, count).sync()
        yield place
        for one in place.opened:
            one.close()


def by_name() -> Session:
    """A device that knows the same others, each by name."""
    exchange = MemoryExchange(CHARTER)
    for name, (kind, count) in FLEET.items():
        device(name, exchange, kind, count).sync()
    me = device("fan-9", exchange, 3)
    me.sync()
    assert len(me.member.ledger) == len(FLEET)
    return me


def test_few_are_told_at_once_and_that_is_as_good_as_by_name(place: Place) -> None:
    me, named = device("fan-9", place("fan-9"), 3), by_name()
    report = me.sync()
    assert (report.devices, report.updated, report.refusal) == (len(FLEET), True, None)
    assert (len(me.member.ledger), me.sync().updated) == (0, False)
    assert me.detector.loan is not None
    assert named.detector.loan is not None
    # Each lends apart, so that the odd one is found among few as well.
    assert np.array_equal(me.detector.loan.C, named.detector.loan.C)
    rows = np.concatenate([cloud(kind, 99, 40) for kind in (1, 2, 4)])
    told, known = ([one.detector.observe(row).known for row in rows] for one in (me, named))
    names = {"fan-1, fan-3": {"fan-1", "fan-3"}, "fan-2, fan-4": {"fan-2", "fan-4"}}
    assert {name for one in told for name in one} == names.keys()
    same = sum(bool(here) == bool(there) for here, there in zip(told, known, strict=True))
    assert same >= 0.95 * len(rows)
    assert {one.name for one in compare_used(me.member)} >= names.keys()


@pytest.mark.parametrize(
    ("options", "who"),
    [
        ({"rule": Quality()}, "the merge rule 'quality'"),
        ({"rule": Quality(), "merged": True}, "the merge rule 'quality'"),
        ({"rule": Named(("fan-1",))}, "the merge rule 'named'"),
        ({"rule": SameGroup()}, "merge = 'group' without merged = true"),
        ({"merged": True, "patterns": PatternRule(2)}, "without merge = 'group'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_each_contribution_is_refused_in_words(
    place: Place, options: dict[str, Any], who: str
) -> None:
    me = device("fan-9", place("fan-9"), 1, **options)
    report = me.sync()
    assert report.refusal is not None
    assert who in report.refusal
    assert "--shows contributions" in report.refusal
    assert (report.sent, report.updated, report.devices) == (600, False, 0)
    assert (me.member.merged, len(me.member.ledger)) == (None, 0), "nothing else is used instead"
    assert "fan-9" in {listing.origin for listing in me.exchange.listings()}


def test_groups_and_one_sum_need_no_more_than_sums(place: Place) -> None:
    alike = device("fan-9", place("fan-9"), 1, rule=SameGroup(), merged=True)
    report = alike.sync()
    assert (report.refusal, report.devices) == (None, 2)
    all_in_one = device("fan-8", place("fan-8"), 1, merged=True)
    assert (all_in_one.sync().refusal, all_in_one.sync().devices) == (None, 5)


def test_where_all_are_too_many_nobody_is_fetched_by_name(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = device("fan-9", place("fan-9"), 3)

    def refused(*_: object) -> None:
        raise Refused("too many")

    monkeypatch.setattr(me.exchange, "others", refused)
    report = me.sync()
    assert (report.refusal, len(me.member.ledger)) == ("too many", 0)
