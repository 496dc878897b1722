"""Rows from a real broker: whole messages, numbers that are gathered, and whatever else comes."""

import json
import logging
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from elmgrove.device.mqtt import client_id
from elmgrove.device.settings import Settings
from elmgrove.device.sources import open_source
from elmgrove.device.sources.mqtt import (
    MOST_BYTES,
    MOST_NAMES,
    MOST_WAITING,
    RowTopics,
    Subscription,
)
from elmgrove.device.sources.text import Bad, Item, Reading, Source
from elmgrove.errors import BadInput
from elmgrove.exchange.broker import Broker
from elmgrove.exchange.broker_address import Message
from elmgrove.reading.layout import Layout
from support.false_broker import LET_IN, false_broker
from support.mosquitto import Mosquitto, running_broker
from support.paho_client import Somebody, somebody_at
from support.serving import wait_until
from support.sources import hostile

_numbers = count()
#: Longer than a message takes on a machine that is busy with other tests.
PATIENCE = 120.0


@pytest.fixture(name="place", scope="module")
def place_fixture(mosquitto: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with running_broker(tmp_path_factory.mktemp("mosquitto")) as place:
        yield place


@pytest.fixture(name="plant")
def plant_fixture(place: Mosquitto) -> Iterator[Somebody]:
    with somebody_at(place) as plant:
        yield plant


class Opened:
    """A source that has subscribed; its items are taken as they come."""

    def __init__(self, source: Source, place: Mosquitto, client: str) -> None:
        self.source = source
        self._items = iter(source)
        self._log = place.folder / "mosquitto.log"
        # With a word, or without one where the connection was faster.
        self._goodbye = re.compile(rf"{client} (disconnected|closed)")

    def take(self, number: int) -> list[Reading | Bad]:
        found = list[Reading | Bad]()
        end = time.monotonic() + PATIENCE
        while len(found) < number:
            assert time.monotonic() < end, f"waited in vain, there were {found}"
            item = next(self._items)
            found += [] if item is None else [item]
        return found

    def rows(self, number: int) -> list[list[float]]:
        found = self.take(number)
        assert not [one for one in found if isinstance(one, Bad)]
        return [one.row for one in found if isinstance(one, Reading)]

    def rest(self) -> Item:
        """The next item, which is None where nothing more has come."""
        return next(self._items)

    def end(self) -> None:
        self._items.close()

    def _partings(self) -> int:
        return len(self._goodbye.findall(self._log.read_text()))

    def close(self) -> None:
        """Ends it, and returns when the broker has noticed."""
        before = self._partings()
        self.end()
        wait_until(lambda: self._partings() > before)


Opening = Callable[..., Opened]


@pytest.fixture(name="opening")
def opening_fixture(place: Mosquitto, caplog: pytest.LogCaptureFixture) -> Iterator[Opening]:
    """Opens a source at the broker, for a device that nobody knows yet unless it is named."""
    caplog.set_level(logging.INFO)
    opened = list[Opened]()

    def opening(
        topic: str, layout: Layout | None = None, *, name: str = "", own: str = "", **more: Any
    ) -> Opened:
        device = name or f"device {next(_numbers)}"
        heard = caplog.text.count("subscribed to")
        pattern = more.pop("pattern", "")
        settings = Settings(source=place.url(topic), pattern=pattern, state="no.elm")
        subscription = Subscription(settings, device, own)
        wait_until(lambda: caplog.text.count("subscribed to") > heard)
        source = open_source("mqtt", follow=False, layout=layout, subscription=subscription, **more)
        topics = RowTopics.of(place.url(topic), pattern)
        opened.append(Opened(source, place, client_id("rows", device, *topics.filters)))
        return opened[-1]

    yield opening
    for one in opened:
        one.end()


def test_a_message_is_a_row(opening: Opening, plant: Somebody) -> None:
    source = opening("json")
    plant.say("json", {"temp": 21.5, "flow": 3})
    plant.say("json", '{\n  "flow": 4,\n  "temp": 22.5\n}')
    plant.say("json", '{"flow": 5, "temp": 23.5}\n{"flow": 6, "temp": 24.5}\n')
    assert source.rows(4) == [[21.5, 3.0], [22.5, 4.0], [23.5, 5.0], [24.5, 6.0]]
    assert source.source.names == ("temp", "flow")


def test_a_time_comes_from_the_message(opening: Opening, plant: Somebody) -> None:
    source = opening("times")
    for second in range(3):
        plant.say("times", {"time": 1714564800 + second, "temp": second})
    found = source.take(3)
    assert [one.time for one in found if isinstance(one, Reading)] == [
        1714564800.0 + second for second in range(3)
    ]
    assert [one.follows for one in found if isinstance(one, Reading)] == [False, True, True]


def test_csv_with_names_in_each_message_or_none(opening: Opening, plant: Somebody) -> None:
    named = opening("csv/named")
    plant.say("csv/named", "temp,flow\n21.5,3\n")
    plant.say("csv/named", "flow,temp\n4,22.5\n")
    assert named.rows(2) == [[21.5, 3.0], [22.5, 4.0]]
    assert named.source.names == ("temp", "flow")
    plain = opening("csv/plain", Layout(decimal=","))
    plant.say("csv/plain", "21,5;3")
    plant.say("csv/plain", "1;x")
    plant.say("csv/plain", "1;2")
    first, bad, last = plain.take(3)
    assert isinstance(bad, Bad)
    assert (first.row, last.row) == ([21.5, 3.0], [1.0, 2.0])


def test_numbers_are_gathered_by_their_topics(
    opening: Opening, plant: Somebody, caplog: pytest.LogCaptureFixture
) -> None:
    source = opening("gather/#")
    for turn in range(3):
        plant.say("gather/motor/temp", f"{20 + turn}.5")
        plant.say("gather/flow", f" {turn}\n")
        plant.say("gather/on", "on" if turn else "off")
        plant.say("gather/note", "all is well")
    # That a text comes is bad only as long as nobody knows what rows are.
    found = source.take(4)
    assert [one.row for one in found if isinstance(one, Reading)] == [
        [1.0, 21.5, 1.0],
        [2.0, 22.5, 1.0],
    ]
    assert source.source.names == ("flow", "motor/temp", "on")
    assert "a row is a value of each of 3 topics: 'flow', 'motor/temp', 'on'" in caplog.text
    plant.say("gather/flow", "broken")
    bad = source.take(1)[0]
    assert isinstance(bad, Bad)
    assert bad.reason == "b'broken' is no number"
    assert "'note' is no number: left alone" in caplog.text


def test_columns_that_are_named_are_waited_for(opening: Opening, plant: Somebody) -> None:
    source = opening("named/+", Layout(columns=("temp", "flow"), label="fault"))
    for name, value in (("temp", "1"), ("other", "5"), ("fault", "normal"), ("flow", "2")):
        plant.say(f"named/{name}", value)
    assert source.rows(1) == [[1.0, 2.0]]
    pattern = opening("named", features=["hall/temp", "flow"], pattern="flow hall/+")
    plant.say("named/hall/temp", "3")
    plant.say("named/flow", "4")
    assert pattern.rows(1) == [[3.0, 4.0]]


def test_a_message_is_one_row_however_many_topics_it_is_under(
    opening: Opening, plant: Somebody
) -> None:
    source = opening("once", pattern="pump/# fan/+")
    for number in range(3):
        plant.say("once/pump/temp", {"temp": number})
    assert source.rows(3) == [[0.0], [1.0], [2.0]]
    assert source.rest() is None


def test_a_row_comes_every_few_seconds(opening: Opening, plant: Somebody) -> None:
    layout = Layout(columns=("temp", "flow"), missing="hold")
    source = opening("every/+", layout, seconds=0.5)
    plant.say("every/temp", "1")
    plant.say("every/flow", "2")
    assert source.rows(1) == [[1.0, 2.0]]
    plant.say("every/temp", "3")
    assert source.rows(1) == [[3.0, 2.0]]
    assert source.source.held == 1


def test_the_first_good_row_decides_what_rows_are(
    opening: Opening, plant: Somebody, caplog: pytest.LogCaptureFixture
) -> None:
    source = opening("mixed/#")
    plant.say("mixed/row", {"temp": 1})
    for _ in range(4):
        plant.say("mixed/count", "7")
    plant.say("mixed/row", {"temp": 2})
    assert source.rows(2) == [[1.0], [2.0]]
    assert caplog.text.count("'count' is one number, where a row is a message: left alone") == 1


@pytest.mark.parametrize("first", ["hello", "no,row", "<html>", b"\xff\xfe\x00", "7;x", "[1, 2]"])
def test_what_comes_before_all_rows_does_not_decide(
    opening: Opening, plant: Somebody, first: str | bytes
) -> None:
    source = opening("garbage")
    for payload in (first, first, {"temp": 1}, {"temp": 2}):
        plant.say("garbage", payload)
    found = source.take(4)
    assert [isinstance(one, Bad) for one in found] == [True, True, False, False]


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_whatever_comes_is_at_worst_a_bad_row(
    opening: Opening, plant: Somebody, known: bool
) -> None:
    source = opening("hostile", features=["temp", "flow"] if known else None)
    if not known:
        plant.say("hostile", {"temp": 1, "flow": 2})
        assert source.rows(1) == [[1.0, 2.0]]
    messages = list(hostile().values())
    for payload in messages:
        plant.say("hostile", payload)
    plant.say("hostile", {"flow": 4, "temp": 3})
    found = source.take(len(messages) + 1)
    while not isinstance(found[-1], Reading):
        found += source.take(1)
    assert found[-1].row == [3.0, 4.0]
    assert all(isinstance(one, Bad) for one in found[:-1])
    numbers = {one.where for one in found[:-1]}
    assert len(numbers) == len(messages)


def test_topics_without_end_and_long_ones_are_bad_rows(opening: Opening, plant: Somebody) -> None:
    source = opening("flood/#")
    plant.say_all([(f"flood/{number}", "1") for number in range(MOST_NAMES + 5)])
    plant.say("flood/" + "x" * 60_000, "1")
    found = source.take(6)
    assert [one.reason[:9] for one in found if isinstance(one, Bad)] == [
        *["more than"] * 5,
        "a topic o",
    ]
    assert all(len(one.where) < 400 for one in found)


def test_a_message_that_is_too_large_costs_the_next_ones_nothing(
    opening: Opening, plant: Somebody
) -> None:
    source = opening("large")
    plant.say("large", {"temp": 1})
    plant.say("large", b"x" * 5_000_000)
    plant.say("large", {"temp": 2})
    assert source.rows(2) == [[1.0], [2.0]]


def test_what_was_retained_and_what_the_device_says_itself_is_no_row(
    opening: Opening, plant: Somebody
) -> None:
    plant.say("kept/row", {"temp": 9}, retain=True)
    source = opening("kept/#", own="kept/told/")
    plant.say("kept/told/verdict", {"temp": 8})
    plant.say("kept/row", b"")
    plant.say("kept/row", {"temp": 1})
    assert source.rows(1) == [[1.0]]


def test_after_a_restart_the_columns_are_those_of_before(opening: Opening, plant: Somebody) -> None:
    source = opening("again/+", Layout(missing="hold"), name="again")
    for turn in range(3):
        plant.say("again/temp", str(turn))
        plant.say("again/flow", str(turn))
    found = source.take(2)
    source.close()
    assert isinstance(found[-1], Reading)
    bookmark = json.loads(json.dumps(found[-1].bookmark))
    source = opening("again/+", name="again", features=["flow", "temp"], bookmark=bookmark)
    plant.say("again/other", "5")
    plant.say("again/flow", "7")
    plant.say("again/temp", "8")
    assert source.rows(1) == [[7.0, 8.0]]


def test_messages_wait_for_who_is_away_and_none_comes_twice(
    opening: Opening, plant: Somebody
) -> None:
    source = opening("away", name="away")
    for number in range(5):
        plant.say("away", {"temp": number})
    assert source.rows(3) == [[0.0], [1.0], [2.0]]
    # The third was given out, and nobody came back to say that it was dealt with.
    source.close()
    for number in range(5, 10):
        plant.say("away", {"temp": number})
    source = opening("away", name="away")
    found = source.rows(8)
    while found[-1] != [9.0]:
        found += source.rows(1)
    # Where the line broke before the last word, what was acknowledged with it comes again.
    assert found == [[float(number)] for number in range(10 - len(found), 10)]
    assert source.rest() is None


def test_a_bookmark_among_messages_is_none_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "fan.csv").write_text("temp\n1\n2\n")
    bookmark = {"gathered": None, "head": ["", ["temp"], True], "names": ["temp"]}
    for where in (tmp_path / "fan.csv", tmp_path):
        source = open_source(str(where), follow=False, bookmark=bookmark, features=["temp"])
        found = [one for one, _ in zip(source, range(2), strict=False) if one is not None]
        assert len(found) == (2 if where.suffix else 0)


@pytest.mark.parametrize(
    ("topic", "pattern", "filters", "name"),
    [
        ("plant/pump1/#", "", ("plant/pump1/#",), "motor/temp"),
        ("plant/+/motor/#", "", ("plant/+/motor/#",), "pump1/motor/temp"),
        ("plant/pump1/motor/temp", "", ("plant/pump1/motor/temp",), "temp"),
        ("plant", "pump1/# hall/+", ("plant/pump1/#", "plant/hall/+"), "pump1/motor/temp"),
        ("", "plant/#", ("plant/#",), "plant/pump1/motor/temp"),
        ("", "# $SYS/#", ("#", "$SYS/#"), "plant/pump1/motor/temp"),
        ("", "a/# b/+ b/+/c", ("a/#", "b/+", "b/+/c"), "plant/pump1/motor/temp"),
        ("#", "", ("#",), "plant/pump1/motor/temp"),
        ("plant//+", "", ("plant//+",), "plant/pump1/motor/temp"),
    ],
)
def test_a_column_is_called_by_what_its_topic_has_of_its_own(
    topic: str, pattern: str, filters: tuple[str, ...], name: str
) -> None:
    topics = RowTopics.of(f"mqtt://host/{topic}", pattern)
    assert topics.filters == filters
    assert topics.name_of("plant/pump1/motor/temp") == name


@pytest.mark.parametrize(
    "pattern", ["a/+/c a/b/+", "+/b a/#", "x a/+/# +/b", "+/a/# b/+", "a/# a/b", "a a", "a/# a"]
)
def test_topics_that_overlap_are_refused(pattern: str) -> None:
    with pytest.raises(BadInput, match=r"under .* and under .*, and would be two rows"):
        RowTopics.of("mqtt://host/plant", pattern)


def test_a_source_names_its_topics() -> None:
    with pytest.raises(BadInput, match="name the topics of the rows"):
        Subscription(Settings(source="mqtt://127.0.0.1/", state="no.elm"), "fan")


def test_a_signal_in_the_last_moment_of_a_wait_does_not_make_it_last_for_ever() -> None:
    calls = count(1)

    def handle(*_: object) -> None:
        assert next(calls) == 1, "it still waits"
        time.sleep(0.2)  # on a busy machine the wait is over when the agent's thread is back

    # Nobody is at that port, so no message will come.
    settings = Settings(source="mqtt://127.0.0.1:9/rows", state="no.elm")
    with closing(Subscription(settings, "pump-1")) as rows:
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05, 20.0)
            assert rows.next(0.1) is None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)


# On their way to the agent's thread each message is dealt with once


@pytest.fixture(autouse=True)
def _links_come_back_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "delays", (0.05, 0.2))


@pytest.fixture
def own_place(mosquitto: None, tmp_path: Path) -> Iterator[Mosquitto]:
    with running_broker(tmp_path) as found:
        yield found


def rows_at(own_place: Mosquitto) -> Subscription:
    return subscription(own_place.url("a/1"))


def subscription(url: str) -> Subscription:
    return Subscription(Settings(source=url, state="no.elm"), "fan-1")


def taken(rows: Subscription, number: int) -> list[Message]:
    """As many messages as they come, none of them acknowledged."""
    found = list[Message]()

    def has_all() -> bool:
        message = rows.next(0.05)
        found.extend([message] if message is not None else [])
        return len(found) == number

    wait_until(has_all)
    return found


def nothing_more(rows: Subscription, plant: Somebody) -> bool:
    """Whether the next message is one that is sent now."""
    plant.say("a/1", b"last")
    return taken(rows, 1)[0].payload == b"last"


def gone(own_place: Mosquitto, times: int) -> None:
    """Waits until the broker has noticed that the device went."""
    log = own_place.folder / "mosquitto.log"
    wait_until(lambda: log.read_text().count("disconnected") >= times)


def test_what_nobody_acknowledged_comes_again_and_the_rest_does_not(
    own_place: Mosquitto,
) -> None:
    with somebody_at(own_place) as plant:
        with closing(rows_at(own_place)) as rows:
            subscribed(rows)
            for number in range(4):
                plant.say("a/1", b"%d" % number)
            first = taken(rows, 4)
            rows.acknowledge(first[0])
            rows.acknowledge(first[2])
        gone(own_place, 1)
        plant.say("a/1", b"meanwhile")
        with closing(rows_at(own_place)) as rows:
            second = taken(rows, 3)
            assert [one.payload for one in second] == [b"1", b"3", b"meanwhile"]
            for one in second:
                rows.acknowledge(one)
        gone(own_place, 2)
        with closing(rows_at(own_place)) as rows:
            subscribed(rows)
            assert nothing_more(rows, plant)


def subscribed(rows: Subscription) -> None:
    """Waits until the broker knows it."""
    wait_until(lambda: rows._reported)


def test_what_was_dealt_with_when_the_link_was_lost_is_not_dealt_with_again(
    own_place: Mosquitto,
) -> None:
    with closing(rows_at(own_place)) as rows:
        subscribed(rows)
        with somebody_at(own_place) as plant:
            for payload in (b"x", b"y", b"z"):
                plant.say("a/1", payload)
            (at_work,) = taken(rows, 1)
            wait_until(lambda: len(rows._waiting) == 2)
        own_place.stop()
        # Too late for the broker to hear of it; and the others come again by the next link.
        rows.acknowledge(at_work)
        own_place.start()
        with somebody_at(own_place) as plant:
            for payload in (b"y", b"z"):
                (message,) = taken(rows, 1)
                assert message.payload == payload
                rows.acknowledge(message)
            assert nothing_more(rows, plant)


def test_what_a_broker_has_forgotten_is_still_to_be_dealt_with(
    mosquitto: None, tmp_path: Path
) -> None:
    with (
        running_broker(tmp_path, "persistence false") as own_place,
        closing(rows_at(own_place)) as rows,
    ):
        subscribed(rows)
        assert rows.next(0.0) is None
        assert rows.broken, "it has just begun"
        with somebody_at(own_place) as plant:
            plant.say("a/1", b"x")
            wait_until(lambda: len(rows._waiting) == 1)
        own_place.stop()
        own_place.start()
        wait_until(lambda: rows._broker.links == 2)
        assert taken(rows, 1)[0].payload == b"x"
        assert rows.broken, "what came meanwhile is lost"


@pytest.mark.parametrize("size", [10_000, 100_000], ids=["many", "large"])
def test_a_broker_that_gives_out_more_than_it_was_asked_for_waits_and_nothing_is_lost(
    size: int,
) -> None:
    """As mosquitto does after a restart: all that it kept comes at once, whatever was asked."""
    room = min(MOST_WAITING, MOST_BYTES // size)
    many, sent = 5 * room, list[int]()

    def flood(line: socket.socket) -> None:
        line.sendall(LET_IN)
        line.recv(1 << 16)
        line.sendall(bytes([0x90, 4, 0, 1, 0, 1]))
        body = bytes(size)
        for number in range(1, many + 1):
            line.sendall(packet(b"\x00\x03a/1" + number.to_bytes(2) + b"\x00" + body))
            sent.append(number)
        while line.recv(1 << 16):
            pass

    with false_broker(flood) as port, closing(subscription(f"mqtt://127.0.0.1:{port}/a/1")) as rows:
        wait_until(lambda: len(sent) >= room)
        time.sleep(0.3)
        # What was not read is still on its way: in memory is no more than was to wait.
        assert len(sent) < many
        for number in range(1, many + 1):
            (message,) = taken(rows, 1)
            assert message.number == number
            rows.acknowledge(message)


def test_what_waits_for_who_is_slow_has_a_bound_in_bytes_and_the_newest_get_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With QoS 0 no broker waits."""
    body = b"\x00\x03a/1\x00" + bytes(100_000)
    room, ended = MOST_BYTES // 100_000, Event()

    def flood(line: socket.socket) -> None:
        line.sendall(LET_IN)
        line.recv(1 << 16)
        line.sendall(bytes([0x90, 4, 0, 1, 0, 1]))
        for _ in range(3 * room):
            line.sendall(packet(body, first=b"\x30"))
        line.sendall(packet(b"\x00\x03a/1\x00\x01\x00last"))
        ended.set()
        line.recv(1 << 16)

    with false_broker(flood) as port, closing(subscription(f"mqtt://127.0.0.1:{port}/a/1")) as rows:
        assert ended.wait(60)
        found = taken(rows, 1)
        while found[-1].payload != b"last":
            found += taken(rows, 1)
    # Those on their way when it was looked at may have found room.
    assert room <= len(found) < 2 * room
    assert "messages come faster than rows are judged" in caplog.text


def packet(rest: bytes, first: bytes = b"\x32") -> bytes:
    """A message, unless stated with QoS 1."""
    length, size = b"", len(rest)
    while size >> 7:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return first + length + bytes([size]) + rest
