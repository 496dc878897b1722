"""A device that asks others by name: it fetches what is new of each, and drops who left."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elmgrove import FalseAlarmRate
from elmgrove.errors import Refused
from elmgrove.exchange import session
from elmgrove.exchange.connection import connect
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution, Entry
from elmgrove.federation.merged import Merged
from elmgrove.federation.selection import Named
from support.factories import DISTANT, cloud

CHARTER = Charter("fans", DISTANT)
SOON = FalseAlarmRate(confidence=0.0)


class Watched(MemoryExchange):
    """Remembers what was fetched; nobody here wants a sum."""

    def __init__(self, charter: Charter) -> None:
        super().__init__(charter)
        self.fetched: list[set[str]] = []

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        if origins:
            self.fetched.append(set(origins))
        return super().fetch(origins)

    def clear(self, origin: str) -> Contribution:
        """Forgets what is held of a device, as an administrator has a server do."""
        (held,) = super().fetch([origin])
        del self._held[origin]
        return held

    def merged(self, *_: Any, **__: Any) -> Merged | None:
        raise AssertionError("a sum was asked for")


def device(name: str, exchange: Any, kind: int, count: int = 600, **options: Any) -> Session:
    made = Session(CHARTER.start(name, threshold=SOON), exchange, **options)
    made.detector.learn_many(cloud(kind, 1, count))
    return made


@pytest.fixture
def exchange() -> Watched:
    """Two devices have been here."""
    made = Watched(CHARTER)
    for number in (1, 2):
        device(f"fan-{number}", made, number).sync()
    made.fetched.clear()
    return made


def asked(one: Session) -> list[str]:
    return [held.origin for held in one.member.ledger]


def test_a_sync_lets_a_device_ask_the_others_by_name(exchange: Watched) -> None:
    me = device("fan-9", exchange, 0)
    report = me.sync()
    assert (report.devices, report.updated, report.sent) == (2, True, 600)
    assert asked(me) == ["fan-1", "fan-2"]
    assert me.detector.observe(cloud(2, 1).mean(axis=0)).known == ("fan-2",)
    assert (me.member.merged, me.detector.received) == (None, None)


def test_only_what_changed_is_fetched(exchange: Watched) -> None:
    me = device("fan-9", exchange, 0)
    me.sync()
    assert exchange.fetched == [{"fan-1", "fan-2"}]
    report = me.sync()
    assert (report.devices, report.updated) == (2, False)
    assert len(exchange.fetched) == 1
    device("fan-2", exchange, 2, 650).sync()
    exchange.fetched.clear()
    assert me.sync().updated
    assert exchange.fetched == [{"fan-2"}]
    assert {held.origin: held.epoch for held in me.member.ledger} == {"fan-1": 600, "fan-2": 1251}


def test_who_left_is_dropped_and_lends_no_more(exchange: Watched) -> None:
    me = device("fan-9", exchange, 0)
    me.sync()
    both = me.detector.loan
    leaving = device("fan-2", exchange, 2, guarded=False)
    leaving.leave()
    exchange.fetched.clear()
    report = me.sync()
    assert (report.devices, report.updated, exchange.fetched) == (1, True, [])
    assert asked(me) == ["fan-1"]
    assert me.detector.loan != both
    assert me.detector.observe(cloud(2, 1).mean(axis=0)).known == ()
    leaving.sync()
    me.sync()
    assert asked(me) == ["fan-1", "fan-2"], "it joined again"


def test_what_an_exchange_was_made_to_forget_is_replaced_by_what_came_since(
    exchange: Watched,
) -> None:
    """Though that has a lower epoch: somebody else had published under that name."""
    honest = exchange.clear("fan-2")
    exchange.publish(replace(honest, epoch=2**61))
    me = device("fan-9", exchange, 0)
    me.sync()
    assert me.member.ledger.get("fan-2").epoch == 2**61
    exchange.clear("fan-2")
    exchange.publish(honest)
    me.sync()
    assert me.member.ledger.get("fan-2") == honest
    assert asked(me) == ["fan-1", "fan-2"]


def test_a_rule_says_who_is_asked(exchange: Watched) -> None:
    me = device("fan-9", exchange, 0, rule=Named(("fan-2",)))
    assert me.sync().devices == 1
    assert asked(me) == ["fan-2"]


def test_as_many_are_held_by_name_as_there_is_room_for(
    exchange: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, both = exchange.listings()[0].size, Named(("fan-1", "fan-2"))
    monkeypatch.setattr(session, "MOST_BYTES", int(1.5 * size))
    me = device("fan-9", exchange, 0, rule=both)
    me.sync()
    assert (len(asked(me)), sum(map(len, exchange.fetched))) == (1, 1)
    monkeypatch.setattr(session, "MOST_BYTES", size - 1)
    none = device("fan-9", exchange, 0, rule=both)
    none.sync()
    assert asked(none) == []


class Refusing(Watched):
    """Does not tell of all devices at once."""

    def others(self, without: str, known: Merged | None) -> Merged | None:
        raise Refused("too many")


def test_where_all_at_once_are_too_many_those_by_name_are_no_more_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exchange = Refusing(CHARTER)
    for number in (1, 2):
        device(f"fan-{number}", exchange, number).sync()
    size = exchange.listings()[0].size
    monkeypatch.setattr(session, "MOST_BYTES", int(1.5 * size))
    me = device("fan-9", exchange, 0)
    me.sync()
    assert len(asked(me)) == 1


def test_a_device_that_merged_before_asks_after_its_next_sync() -> None:
    exchange = MemoryExchange(CHARTER)
    device("fan-1", exchange, 1).sync()
    me = device("fan-9", exchange, 0)
    me.member.follow(merges=True)
    me.sync()
    assert me.member.merged is not None
    me.member.follow(merges=False)
    assert me.sync().updated
    assert (me.member.merged, asked(me)) == (None, ["fan-1"])
    me.member.follow(merges=True)
    me.sync()
    assert me.member.merged is not None
    assert asked(me) == []


def test_a_state_goes_on_with_those_it_holds(tmp_path: Path) -> None:
    FolderExchange.create(tmp_path / "shared", CHARTER)
    device("fan-1", FolderExchange(tmp_path / "shared"), 1).sync()
    where, state = str(tmp_path / "shared"), tmp_path / "me.elm"
    with connect(where, "fan-9", state=state, threshold=SOON) as me:
        assert me.sync().updated
    with connect(where, "fan-9", state=state) as me:
        assert asked(me) == ["fan-1"]
        assert not me.sync().updated
