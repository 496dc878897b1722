"""What devices report of themselves in the store: minutes, events, and commands that wait."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.report import MOST_RESULTS, Minute, Report, seconds_of
from elmgrove.server.store.audit import OWN_CHAIN, by_device, reads, record, writes
from elmgrove.server.store.contributions import Entries
from elmgrove.server.store.database import Operation, places, upsert
from elmgrove.server.store.federations import DEVICE, changed, require_federation
from elmgrove.server.store.records import CommandRow, Event, ToldRow

#: Commands that wait for one device.
MOST_OPEN = 200

_COMMAND = """SELECT id, action, words, asked_by, asked_at, device, done, refused, said FROM command
    WHERE federation = $1"""


class CommandsKept(Entries):
    """The store's operations on commands.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @writes
    def ask_command(
        self, federation: str, device: str, command: Command, *, actor: str
    ) -> Operation[str | None]:
        """Lets a command wait for its device; None if it does, or why it can't."""
        yield from require_federation(federation)
        rows = yield (f"{DEVICE} AND name = $2", federation, device)
        if not rows:
            return f"{device!r} has not joined"
        if rows[0][2]:
            return f"the key of {device!r} was revoked: it comes for nothing any more"
        if len((yield from open_commands(federation, device))) >= MOST_OPEN:
            return f"{MOST_OPEN} commands wait for {device!r} already, which has not come for them"
        yield (
            """INSERT INTO command (id, federation, device, action, words, asked_by, asked_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)""",
            command.id,
            federation,
            device,
            command.action,
            json.dumps(command.words),
            command.asked_by,
            command.asked_at,
        )
        stated = {"device": device, "command": command.id, "action": command.action}
        yield from record(federation, actor, "command asked", **stated, words=command.words)
        yield from changed(federation)
        return None

    @reads
    def commands(self, federation: str, device: str, limit: int) -> Operation[list[CommandRow]]:
        """Lists the newest commands of a device with what came of them, the newest first."""
        where = f"{_COMMAND} AND device = $2 ORDER BY asked_at DESC, id LIMIT {limit:d}"
        return [_command(*row) for row in (yield (where, federation, device))]


def open_commands(federation: str, device: str) -> Operation[list[Command]]:
    """Lists the commands that wait for a device, the oldest first."""
    where = f"{_COMMAND} AND device = $2 AND done IS NULL ORDER BY asked_at, id"
    return [_command(*row).command for row in (yield (where, federation, device))]


def end_command(
    federation: str, device: str, command: Command, outcome: CommandResult
) -> Operation[None]:
    """Keeps what a device said after a command, which waits no longer."""
    yield (
        "UPDATE command SET done = $2, refused = $3, said = $4 WHERE id = $1",
        command.id,
        outcome.time,
        outcome.refused,
        json.dumps(outcome.said),
    )
    stated = {"device": device, "command": command.id, "refused": outcome.refused}
    yield from record(federation, by_device(device), "command done", **stated)


def _command(*columns: Any) -> CommandRow:
    name, action, words, asked_by, asked_at, device, done, refused, said = columns
    return CommandRow(
        Command(name, action, json.loads(words), asked_by, asked_at),
        device,
        done,
        None if refused is None else bool(refused),
        () if said is None else tuple(json.loads(said)),
    )


#: Events that are kept of a device, and the letters of all of them as JSON, at most.
MOST_EVENTS, MOST_LETTERS = 5000, 5 * 2**20
#: What is a device's, in a table of what devices tell.
OF_DEVICE = "federation = $1 AND device = $2"


class EventsKept(CommandsKept):
    """The store's operations on events.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @reads
    def events(
        self, federation: str, device: str, begin: float, end: float, limit: int
    ) -> Operation[list[Event]]:
        """Lists the newest events of a device that touch a time, newest first.

        An open one touches all that came after its begin.
        """
        rows = yield (
            # Not by the index of all devices' events.
            f"""SELECT device, number, begin, ended, peak, event FROM event
            WHERE {OF_DEVICE} AND begin < $3 AND (ended IS NULL OR ended >= $4)
            ORDER BY -begin, number DESC LIMIT {limit:d}""",
            federation,
            device,
            end,
            begin,
        )
        return [_event(*row) for row in rows]

    @reads
    def event_times(
        self, federation: str, devices: Sequence[str], begin: float, end: float, each: int
    ) -> Operation[list[Event]]:
        """Lists when the newest events of each device were that touch a time, newest first.

        What they say is left out. However many one device tells, it MUST NOT hide another's; its
        own open ones go before those that ended.
        """
        if not devices:
            return []
        rows = yield (
            f"""SELECT device, number, begin, ended, peak, '{{}}' FROM (
            SELECT device, number, begin, ended, peak, ROW_NUMBER() OVER (PARTITION BY device
            ORDER BY CASE WHEN ended IS NULL THEN 0 ELSE 1 END, begin DESC, number DESC) AS place
            FROM event WHERE federation = $1 AND begin < $2
            AND (ended IS NULL OR ended >= $3) AND device IN ({places(4, len(devices))})) newest
            WHERE place <= {each:d} ORDER BY begin DESC, device, number DESC""",
            federation,
            end,
            begin,
            *devices,
        )
        return [_event(*row) for row in rows]


def add_events(federation: str, report: Report, received: float) -> Operation[None]:
    """Keeps the events of a report, and ends those that it tells of no more."""
    device = (federation, report.device)
    if report.events:
        rows = [(*device, *_columns(event, report.time), received) for event in report.events]
        yield upsert(
            "event (federation, device, number, mark, begin, ended, peak, event, received)",
            rows,
            """(federation, device, number, mark) DO UPDATE SET ended = excluded.ended,
            peak = excluded.peak, event = excluded.event WHERE event.event <> excluded.event
            OR (event.ended IS NULL) <> (excluded.ended IS NULL)""",
        )
    yield from _end_others(federation, report)
    if report.events:
        yield (
            f"""DELETE FROM event WHERE {OF_DEVICE} AND (number, mark) IN (
            SELECT number, mark FROM (SELECT number, mark, ROW_NUMBER() OVER newest AS place,
            SUM(LENGTH(event)) OVER newest AS letters FROM event WHERE {OF_DEVICE}
            WINDOW newest AS (ORDER BY begin DESC, number DESC, mark)) kept
            WHERE place > {MOST_EVENTS} OR letters > {MOST_LETTERS})""",
            *device,
        )


def _end_others(federation: str, report: Report) -> Operation[None]:
    """Ends the events that a device tells of no more: when, by the time of its rows.

    A file that is read years later has its events in its own time. Where rows have no time, an
    event is of the time when it was told.
    """
    device, lasting = (federation, report.device), sorted(_lasting(report))
    among = f" AND number NOT IN ({places(3, len(lasting))})" if lasting else ""
    select = f"SELECT number, mark, begin FROM event WHERE {OF_DEVICE} AND ended IS NULL{among}"
    over = yield (select, *device, *lasting)
    if not over:
        return
    newest = f"SELECT minutes FROM hour WHERE {OF_DEVICE} ORDER BY hour DESC LIMIT 1"
    minutes = [one.minute for one in report.minutes]
    for (written,) in [] if minutes else (yield (newest, *device)):
        minutes = [one[0] for one in json.loads(written)]
    for number, mark, begin in over:
        end = max(minutes) * 60.0 + 60.0 if minutes and not mark.isdigit() else report.time
        ending = f"UPDATE event SET ended = $5 WHERE {OF_DEVICE} AND number = $3 AND mark = $4"
        yield (ending, *device, number, mark, max(begin, end))


def _columns(event: dict[str, Any], now: float) -> tuple[Any, ...]:
    """An event's columns; one whose rows have no time is of the time when it is told."""
    begin, end = seconds_of(event["begin"]), event["end"]
    ended = None if end is None else seconds_of(end)
    return (
        event["number"],
        str(event["begin"]),
        now if begin is None else begin,
        now if end is not None and ended is None else ended,
        event["peak"],
        json.dumps(event, ensure_ascii=False),
    )


def _lasting(report: Report) -> set[int]:
    """The numbers of events that have not ended, by all that the device says."""
    found = {event["number"] for event in report.events if event["end"] is None}
    number = (report.status["event"] or {}).get("number")
    return found | ({number} if type(number) is int else set())


def _event(
    device: str, number: int, begin: float, ended: float | None, peak: float, event: str
) -> Event:
    return Event(device, number, begin, ended, peak, json.loads(event))


#: Hours that are kept of a device, at most: 100 days.
MOST_HOURS = 2400
#: Hours of one report, the newest; a device that syncs has one or two.
MOST_HOURS_AT_ONCE = 168
#: What is deleted for its age in one transaction, so that others need not wait long for it.
FORGOTTEN_AT_ONCE = 1000
# A device is late that was not heard of for so many times its own interval, and some seconds.
_LATE, _GRACE = 3.0, 30.0


class Reports(EventsKept):
    """The store's operations on what devices tell of themselves.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @writes
    def take_report(
        self, federation: str, report: Report, received: float
    ) -> Operation[list[Command]]:
        """Takes what a device tells in the place of what it told before; gives its commands.

        MUST keep one of each minute and event, the last that was told; an event that is no longer
        told of has ended. An outcome of a command that is not open, or another device's, changes
        nothing. What is more than is kept of one device MUST go, the oldest first. Commands are the
        oldest, as many as a report can tell the outcomes of.
        """
        yield from require_federation(federation)
        yield from _tell(federation, report, received)
        yield from _add_minutes(federation, report, received)
        yield from add_events(federation, report, received)
        commands = yield from open_commands(federation, report.device)
        done = {outcome.command: outcome for outcome in report.outcomes}
        for command in commands:
            if command.id in done:
                yield from end_command(federation, report.device, command, done[command.id])
        yield from changed(federation)
        return [command for command in commands if command.id not in done][:MOST_RESULTS]

    @reads
    def told(self, federation: str, device: str) -> Operation[ToldRow | None]:
        """Gives what a device last told of itself, without minutes and events."""
        select = """SELECT t.device, t.received, t.time, t.due, s.report FROM told t
            JOIN report s ON s.federation = t.federation AND s.device = t.device
            WHERE t.federation = $1 AND t.device = $2"""
        rows = yield (select, federation, device)
        if not rows:
            yield from require_federation(federation)
            return None
        device, received, time, due, report = rows[0]
        return ToldRow(device, received, time, due, json.loads(report))

    async def minutes(
        self, federation: str, device: str, begin: float, end: float
    ) -> list[list[Any]]:
        """Gives the minutes of a time as their fields, the oldest first."""
        found = await self._hours(federation, device, int(begin // 3600), int(end // 3600))

        def read() -> list[list[Any]]:
            hours = (json.loads(text) for text in found)
            return [one for hour in hours for one in hour if begin <= one[0] * 60 < end]

        # Of weeks they are many: in a thread, so that others are answered meanwhile.
        return await asyncio.to_thread(read)

    @reads
    def _hours(self, federation: str, device: str, first: int, last: int) -> Operation[list[str]]:
        rows = yield (
            """SELECT minutes FROM hour WHERE federation = $1 AND device = $2
            AND hour >= $3 AND hour <= $4 ORDER BY hour""",
            federation,
            device,
            first,
            last,
        )
        return [row[0] for row in rows]

    @reads
    def newest_hours(
        self, federation: str, device: str, limit: int
    ) -> Operation[list[tuple[float, float, float]]]:
        """Gives the newest hours: the begin of first and last minute, and when the first came."""
        rows = yield (
            f"""SELECT minutes, received FROM hour WHERE {OF_DEVICE}
            ORDER BY hour DESC LIMIT {limit:d}""",
            federation,
            device,
        )
        hours = [(json.loads(minutes), received) for minutes, received in rows]
        return [(hour[0][0] * 60.0, hour[-1][0] * 60.0, received) for hour, received in hours]

    async def forget(self, minutes_until: float, events_until: float, now: float) -> int:
        """Deletes minutes and events that came before these times, some at once; says how many.

        Commands, and the last report of a device, go with events; expired sessions go too.
        """
        return await self.write(OWN_CHAIN, _forget(minutes_until, events_until, now))


def _tell(federation: str, report: Report, received: float) -> Operation[None]:
    every = report.status["sync_seconds"]
    yield (
        """INSERT INTO told (federation, device, received, time, due, state, learned, event, drift)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (federation, device) DO UPDATE SET received = excluded.received,
        time = excluded.time, due = excluded.due, state = excluded.state,
        learned = excluded.learned, event = excluded.event, drift = excluded.drift""",
        federation,
        report.device,
        received,
        report.time,
        None if every is None else received + _LATE * every + _GRACE,
        report.state,
        report.learned,
        report.event_open,
        report.drifts,
    )
    kept = ("status", "cooperation", "quarantine")
    told = {name: value for name, value in report.fields.items() if name in kept}
    yield (
        """INSERT INTO report (federation, device, report) VALUES ($1, $2, $3)
        ON CONFLICT (federation, device) DO UPDATE SET report = excluded.report""",
        federation,
        report.device,
        json.dumps(told, ensure_ascii=False),
    )


def _add_minutes(federation: str, report: Report, received: float) -> Operation[None]:
    hours: dict[int, dict[int, list[Any]]] = defaultdict(dict)
    for minute in report.minutes:
        hours[minute.minute // 60][minute.minute] = _rounded(minute)
    newest = sorted(hours)[-MOST_HOURS_AT_ONCE:]
    if not newest:
        return
    device = (federation, report.device)
    where = f"{OF_DEVICE} AND hour IN ({places(3, len(newest))})"
    for hour, held in (yield (f"SELECT hour, minutes FROM hour WHERE {where}", *device, *newest)):
        hours[hour] = {one[0]: one for one in json.loads(held)} | hours[hour]
    rows = [(*device, hour, received, _written(hours[hour])) for hour in newest]
    yield upsert(
        "hour (federation, device, hour, received, minutes)",
        rows,
        "(federation, device, hour) DO UPDATE SET minutes = excluded.minutes",
    )
    yield (
        f"""DELETE FROM hour WHERE {OF_DEVICE} AND hour < (SELECT hour FROM hour WHERE {OF_DEVICE}
        ORDER BY hour DESC LIMIT 1 OFFSET {MOST_HOURS - 1})""",
        *device,
    )


def _forget(minutes_until: float, events_until: float, now: float) -> Operation[int]:
    total = 0
    for table, key, age, until in (
        ("hour", "federation, device, hour", "received", minutes_until),
        ("event", "federation, device, number, mark", "received", events_until),
        ("command", "id", "asked_at", events_until),
        ("told", "federation, device", "received", events_until),
        ("session", "id_hash", "expires", now),
    ):
        old = f"FROM {table} WHERE {age} < $1 ORDER BY {age}, {key} LIMIT {FORGOTTEN_AT_ONCE}"
        found = yield (f"SELECT {key} {old}", until)
        if found:
            yield (f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} {old})", until)
        total += len(found)
    yield (
        """DELETE FROM report WHERE NOT EXISTS (SELECT 1 FROM told t
        WHERE t.federation = report.federation AND t.device = report.device)""",
    )
    return total


def _rounded(minute: Minute) -> list[Any]:
    """A minute's fields, its numbers as precisely as a picture shows them: there are many."""
    return [float(f"{one:.6g}") if isinstance(one, float) else one for one in minute.fields]


def _written(minutes: dict[int, list[Any]]) -> str:
    return json.dumps([minutes[one] for one in sorted(minutes)], separators=(",", ":"))
