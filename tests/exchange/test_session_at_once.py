"""A device of a large federation is told of all others at once, in groups."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from elmgrove import FalseAlarmRate
from elmgrove.errors import Refused
from elmgrove.exchange import session
from elmgrove.exchange.base import Exchange
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.http import HttpExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.charter import Charter
from elmgrove.federation.selection import Named
from elmgrove.federation.similarity import compare_used, worth_telling
from support.factories import DISTANT, cloud
from support.serving import ALL_SHOWN, serving

#: Of few devices each is told by name, and a rule may choose among them.
CHARTER = Charter("fans", DISTANT, terms=ALL_SHOWN)
SOON = FalseAlarmRate(confidence=0.0)


class Fleet:
    """Devices of a few kinds, all on one exchange."""

    def __init__(self, place: Any) -> None:
        self._place = place
        self.sessions: dict[str, Session] = {}

    def device(self, number: int, kind: int, **options: Any) -> Session:
        name = f"fan-{number:02}"
        member = CHARTER.start(name, threshold=SOON)
        made = Session(member, self._place(name), **options)
        made.detector.learn_many(cloud(kind, number))
        self.sessions[name] = made
        return made


@pytest.fixture(params=["server", "folder"])
def fleet(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fleet]:
    """Five devices have been here; that is many."""
    monkeypatch.setattr(session, "MOST_BY_NAME", 3)
    if request.param == "folder":
        FolderExchange.create(tmp_path, CHARTER)
        # Without a server, what all have together decides.
        monkeypatch.setattr(session, "MOST_BYTES", 2000)
        yield begun(Fleet(lambda name: FolderExchange(tmp_path)))
        return
    with serving(f"sqlite:///{tmp_path / 'exchange.db'}") as server:
        token = server.found(CHARTER).token

        def place(name: str) -> Exchange:
            return HttpExchange(f"{server.base}/fans", name, token=token)

        made = begun(Fleet(place))
        yield made
        for one in made.sessions.values():
            one.close()


def begun(fleet: Fleet) -> Fleet:
    for number in range(1, 6):
        fleet.device(number, number % 2).sync()
    return fleet


def test_many_are_told_of_at_once_and_asked_in_groups(fleet: Fleet) -> None:
    me = fleet.device(9, 2)
    report = me.sync()
    assert (report.devices, report.updated, len(me.member.ledger)) == (5, True, 0)
    assert me.member.merged is not None
    assert len(me.member.merged.parts) == 2
    verdict = me.detector.observe(cloud(1, 50).mean(axis=0))
    assert verdict.known == ("fan-01, fan-03, fan-05",)
    assert verdict.anomalous
    assert me.detector.loan is not None


def test_what_did_not_change_is_not_told_again_and_who_left_is_not_in_it(fleet: Fleet) -> None:
    me = fleet.device(9, 2)
    me.sync()
    assert not me.sync().updated
    fleet.sessions["fan-01"].leave()
    report = me.sync()
    assert (report.devices, report.updated) == (4, True)
    assert me.detector.observe(cloud(1, 50).mean(axis=0)).known == ("fan-03, fan-05",)


def test_few_are_asked_by_name_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    me = fleet.device(9, 2)
    me.sync()
    for number in (1, 2, 3):
        fleet.sessions[f"fan-0{number}"].leave()
    me.sync()
    monkeypatch.setattr(session, "MOST_BYTES", 1e6)
    me.sync()
    assert me.member.merged is None
    assert [held.origin for held in me.member.ledger] == ["fan-04", "fan-05"]


def test_a_device_that_was_told_at_once_asks_by_name_where_that_is_refused(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = fleet.device(9, 2)
    me.sync()
    assert me.member.merged is not None

    def refused(*_: object) -> None:
        raise Refused("too many")

    monkeypatch.setattr(me.exchange, "others", refused)
    monkeypatch.setattr(session, "MOST_BYTES", 1e6)
    assert me.sync().updated
    assert (me.member.merged, len(me.member.ledger)) == (None, 5)


def test_each_group_that_is_not_alike_is_told(fleet: Fleet) -> None:
    me = fleet.device(9, 2)
    me.sync()
    unlike = [one.name for one in worth_telling(compare_used(me.member)) if one.name is not None]
    assert len(worth_telling(compare_used(me.member))) > 0
    assert set(unlike) <= {"fan-01, fan-03, fan-05", "fan-02, fan-04"}
    names = {one.name for one in compare_used(me.member) if not one.alike}
    assert names >= {"fan-01, fan-03, fan-05", "fan-02, fan-04"}


def test_with_a_rule_devices_are_fetched_by_name(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "MOST_BYTES", 1e6)
    me = fleet.device(9, 2, rule=Named(tuple(fleet.sessions)))
    me.sync()
    assert (me.member.merged, len(me.member.ledger)) == (None, 5)
