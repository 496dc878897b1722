"""What devices report of themselves, in the store: minutes, events; and commands that wait."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.report import Minute, Report, seconds_of
from elmgrove.federation.schemas import MOST_RESULTS
from elmgrove.server.store.audit import SERVER_LOG, by_device, record
from elmgrove.server.store.database import (
    Database,
    Transaction,
    insert,
    placeholders,
    require_federation,
    upsert,
)
from elmgrove.server.store.federations import count_change, device_named

_OF_DEVICE = "federation = $1 AND device = $2"
_COMMAND = f"""SELECT id, action, words, asked_by, asked_at, device, done, refused, said
    FROM command WHERE {_OF_DEVICE}"""


@dataclass(frozen=True)
class StoredReport:
    """The last report of a device: ``report`` is JSON, without minutes and events.

    ``time`` is by the device's clock, ``received`` by the server's; after ``silent_after`` it is
    late with the next one, if it said how often it syncs.
    """

    device: str
    received: float
    time: float
    silent_after: float | None
    report: dict[str, Any]


@dataclass(frozen=True)
class StoredEvent:
    """An event that a device reported; ``details`` is JSON.

    ``ended`` is None while it is open. ``begin`` and ``ended`` are times in any case, those of the
    report where the rows have none.
    """

    device: str
    number: int
    begin: float
    ended: float | None
    peak: float
    details: dict[str, Any]


@dataclass(frozen=True)
class StoredCommand:
    """A command, and what its device answered; ``done`` is None until then."""

    command: Command
    device: str
    done: float | None = None
    refused: bool | None = None
    said: tuple[str, ...] = ()


class Reports:
    #: Hours that are kept of a device: 100 days.
    MOST_HOURS = 2400
    #: Hours of one report, the newest; a device that syncs has one or two.
    MOST_HOURS_AT_ONCE = 168
    #: Events that are kept of a device, and the characters of all of them as JSON.
    MOST_EVENTS, MOST_CHARACTERS = 5000, 5 * 2**20
    #: Commands that wait for one device.
    MOST_WAITING = 200
    #: What is deleted for its age in one transaction, so that others need not wait long for it.
    EXPIRED_AT_ONCE = 1000

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, federation: str, report: Report, received: float) -> list[Command]:
        """Store a report in place of the one before; return the commands that wait.

        MUST keep one of each minute and event, the last that was reported; an open event that is no
        longer reported has ended. An result of a command that is not open, or another device's,
        changes nothing. What is more than is kept of one device MUST go, the oldest first. Commands
        are the oldest, as many as a report can have results of.
        """
        async with self._database.write(federation) as tx:
            await require_federation(tx, federation)
            await _put_status(tx, federation, report, received)
            await _add_minutes(tx, federation, report, received)
            await _add_events(tx, federation, report, received)
            commands = await _waiting_commands(tx, federation, report.device)
            done = {result.command: result for result in report.results}
            for command in commands:
                if command.id in done:
                    await _end_command(tx, federation, report.device, done[command.id])
            await count_change(tx, federation)
        return [command for command in commands if command.id not in done][:MOST_RESULTS]

    async def get(self, federation: str, device: str) -> StoredReport | None:
        async with self._database.read() as tx:
            newest = """SELECT s.received, s.time, s.silent_after, r.report FROM device_status s
                JOIN report r ON r.federation = s.federation AND r.device = s.device
                WHERE s.federation = $1 AND s.device = $2"""
            rows = await tx.fetch(newest, federation, device)
            if not rows:
                await require_federation(tx, federation)
                return None
        received, time, silent_after, report = rows[0]
        return StoredReport(device, received, time, silent_after, json.loads(report))

    async def minutes(
        self, federation: str, device: str, begin: float, end: float
    ) -> list[list[Any]]:
        """Return the minutes of a time as their fields, the oldest first."""
        async with self._database.read() as tx:
            some = f"""SELECT minutes FROM hour WHERE {_OF_DEVICE} AND hour >= $3 AND hour <= $4
                ORDER BY hour"""
            hours = int(begin // 3600), int(end // 3600)
            rows = await tx.fetch(some, federation, device, *hours)

        def parsed() -> list[list[Any]]:
            read = (json.loads(minutes) for (minutes,) in rows)
            return [minute for hour in read for minute in hour if begin <= minute[0] * 60 < end]

        # Of weeks they are many: in a thread, so that others are answered meanwhile.
        return await asyncio.to_thread(parsed)

    async def newest_hours(
        self, federation: str, device: str, limit: int
    ) -> list[tuple[float, float, float]]:
        """Return the begin of the first and last minute of each hour, and when the first came."""
        async with self._database.read() as tx:
            newest = f"""SELECT minutes, received FROM hour WHERE {_OF_DEVICE}
                ORDER BY hour DESC LIMIT {limit:d}"""
            rows = await tx.fetch(newest, federation, device)
        hours = [(json.loads(minutes), received) for minutes, received in rows]
        return [(hour[0][0] * 60.0, hour[-1][0] * 60.0, received) for hour, received in hours]

    async def events(
        self, federation: str, device: str, begin: float, end: float, limit: int
    ) -> list[StoredEvent]:
        """List the newest events of a device that overlap with a time, newest first.

        An open one overlaps with all that came after its begin.
        """
        async with self._database.read() as tx:
            # Not by the index of all devices' events.
            newest = f"""SELECT device, number, begin, ended, peak, event FROM event
                WHERE {_OF_DEVICE} AND begin < $3 AND (ended IS NULL OR ended >= $4)
                ORDER BY -begin, number DESC LIMIT {limit:d}"""
            rows = await tx.fetch(newest, federation, device, end, begin)
        return [_event(*row) for row in rows]

    async def event_times(
        self, federation: str, devices: Sequence[str], begin: float, end: float, each: int
    ) -> list[StoredEvent]:
        """List the newest events of each device that overlap with a time, newest first.

        Without their details. However many one device reports, it MUST NOT hide another's; its own
        open ones go before those that ended.
        """
        if not devices:
            return []
        async with self._database.read() as tx:
            newest = f"""SELECT device, number, begin, ended, peak FROM (
                SELECT device, number, begin, ended, peak, ROW_NUMBER() OVER (PARTITION BY device
                ORDER BY CASE WHEN ended IS NULL THEN 0 ELSE 1 END, begin DESC, number DESC)
                AS place FROM event WHERE federation = $1 AND begin < $2
                AND (ended IS NULL OR ended >= $3)
                AND device IN ({placeholders(4, len(devices))})) newest
                WHERE place <= {each:d} ORDER BY begin DESC, device, number DESC"""
            rows = await tx.fetch(newest, federation, end, begin, *devices)
        return [_event(*row) for row in rows]

    async def ask(
        self, federation: str, device: str, command: Command, *, actor: str
    ) -> str | None:
        """Store a command until its device syncs; None if it is stored, or why it can't be."""
        async with self._database.write(federation) as tx:
            await require_federation(tx, federation)
            found = await device_named(tx, federation, device)
            if found is None:
                return f"{device!r} has not joined"
            if found.revoked:
                return f"the key of {device!r} was revoked: it will not sync any more"
            waiting = len(await _waiting_commands(tx, federation, device))
            if waiting >= self.MOST_WAITING:
                return f"{waiting} commands wait for {device!r} already, which has not synced"
            asked = vars(command) | {"words": json.dumps(command.words)}
            await insert(tx, "command", federation=federation, device=device, **asked)
            detail = {"command": command.id, "action": command.action, "words": command.words}
            await record(tx, federation, actor, "command asked", device=device, **detail)
            await count_change(tx, federation)
        return None

    async def commands(self, federation: str, device: str, limit: int) -> list[StoredCommand]:
        """List the newest commands of a device with their results, newest first."""
        async with self._database.read() as tx:
            rows = await tx.fetch(
                f"{_COMMAND} ORDER BY asked_at DESC, id LIMIT {limit:d}", federation, device
            )
        return [_command(*row) for row in rows]

    async def expire(self, minutes_until: float, events_until: float) -> int:
        """Delete minutes and events that came before these times, some at once; return how many.

        Commands, and the last report of a device, go with events.
        """
        total = 0
        async with self._database.write(SERVER_LOG) as tx:
            for table, key, age, until in (
                ("hour", "federation, device, hour", "received", minutes_until),
                ("event", "federation, device, number, begin_text", "received", events_until),
                ("command", "id", "asked_at", events_until),
                ("device_status", "federation, device", "received", events_until),
            ):
                oldest = f"""SELECT {key} FROM {table} WHERE {age} < $1
                    ORDER BY {age}, {key} LIMIT {self.EXPIRED_AT_ONCE}"""
                if found := await tx.fetch(oldest, until):
                    await tx.execute(f"DELETE FROM {table} WHERE ({key}) IN ({oldest})", until)
                total += len(found)
            await tx.execute(
                """DELETE FROM report WHERE NOT EXISTS (SELECT 1 FROM device_status s
                WHERE s.federation = report.federation AND s.device = report.device)"""
            )
        return total


async def _put_status(tx: Transaction, federation: str, report: Report, received: float) -> None:
    every = report.status["sync_seconds"]
    device = {"key": "federation, device", "federation": federation, "device": report.device}
    await insert(
        tx,
        "device_status",
        **device,
        received=received,
        time=report.time,
        # Two syncs may fail, and the third take a while.
        silent_after=None if every is None else received + 3.0 * every + 30.0,
        state=report.state,
        learned=report.learned,
        event=report.event_open,
        drift=report.drifts,
    )
    parts = ("status", "cooperation", "quarantine")
    kept = {name: value for name, value in report.fields.items() if name in parts}
    await insert(tx, "report", **device, report=json.dumps(kept, ensure_ascii=False))


async def _add_minutes(tx: Transaction, federation: str, report: Report, received: float) -> None:
    hours: dict[int, dict[int, list[Any]]] = defaultdict(dict)
    for minute in report.minutes:
        hours[minute.minute // 60][minute.minute] = _rounded(minute)
    newest = sorted(hours)[-Reports.MOST_HOURS_AT_ONCE :]
    if not newest:
        return
    known = f"""SELECT hour, minutes FROM hour
        WHERE {_OF_DEVICE} AND hour IN ({placeholders(3, len(newest))})"""
    held = await tx.fetch(known, federation, report.device, *newest)
    for hour, minutes in held:
        hours[hour] = {one[0]: one for one in json.loads(minutes)} | hours[hour]
    rows = []
    for hour in newest:
        minutes = [hours[hour][minute] for minute in sorted(hours[hour])]
        written = json.dumps(minutes, separators=(",", ":"))
        rows.append((federation, report.device, hour, received, written))
    await upsert(
        tx,
        "hour (federation, device, hour, received, minutes)",
        rows,
        "(federation, device, hour) DO UPDATE SET minutes = excluded.minutes",
    )
    await tx.execute(
        f"""DELETE FROM hour WHERE {_OF_DEVICE} AND hour < (SELECT hour FROM hour
        WHERE {_OF_DEVICE} ORDER BY hour DESC LIMIT 1 OFFSET {Reports.MOST_HOURS - 1})""",
        federation,
        report.device,
    )


def _rounded(minute: Minute) -> list[Any]:
    """Return a minute's fields, its numbers as precisely as a chart shows them: there are many."""
    return [float(f"{one:.6g}") if isinstance(one, float) else one for one in minute.fields]


async def _add_events(tx: Transaction, federation: str, report: Report, received: float) -> None:
    if report.events:
        rows = [
            (federation, report.device, *_columns(event, report.time), received)
            for event in report.events
        ]
        await upsert(
            tx,
            "event (federation, device, number, begin_text, begin, ended, peak, event, received)",
            rows,
            """(federation, device, number, begin_text) DO UPDATE SET ended = excluded.ended,
            peak = excluded.peak, event = excluded.event WHERE event.event <> excluded.event
            OR (event.ended IS NULL) <> (excluded.ended IS NULL)""",
        )
    await _end_events(tx, federation, report)
    if report.events:
        await tx.execute(
            f"""DELETE FROM event WHERE {_OF_DEVICE} AND (number, begin_text) IN (
            SELECT number, begin_text FROM (SELECT number, begin_text,
            ROW_NUMBER() OVER newest AS place, SUM(LENGTH(event)) OVER newest AS characters
            FROM event WHERE {_OF_DEVICE}
            WINDOW newest AS (ORDER BY begin DESC, number DESC, begin_text)) kept
            WHERE place > {Reports.MOST_EVENTS} OR characters > {Reports.MOST_CHARACTERS})""",
            federation,
            report.device,
        )


async def _end_events(tx: Transaction, federation: str, report: Report) -> None:
    """End the open events that a device no longer reports: when, by the time of its rows.

    A file that is read years later has its events in its own time. Where rows have no time, an
    event is of the time when it was reported.
    """
    device = (federation, report.device)
    going_on = {event["number"] for event in report.events if event["end"] is None}
    number = (report.status["event"] or {}).get("number")
    if type(number) is int:
        going_on.add(number)
    but = f"AND number NOT IN ({placeholders(3, len(going_on))})" if going_on else ""
    over = await tx.fetch(
        f"""SELECT number, begin_text, begin FROM event
        WHERE {_OF_DEVICE} AND ended IS NULL {but}""",
        *device,
        *sorted(going_on),
    )
    if not over:
        return
    minutes = [one.minute for one in report.minutes]
    if not minutes:
        newest = f"SELECT minutes FROM hour WHERE {_OF_DEVICE} ORDER BY hour DESC LIMIT 1"
        for (written,) in await tx.fetch(newest, *device):
            minutes = [one[0] for one in json.loads(written)]
    for number, begin_text, begin in over:
        has_time = minutes and not begin_text.isdigit()
        end = max(minutes) * 60.0 + 60.0 if has_time else report.time
        await tx.execute(
            f"UPDATE event SET ended = $5 WHERE {_OF_DEVICE} AND number = $3 AND begin_text = $4",
            *device,
            number,
            begin_text,
            max(begin, end),
        )


def _event(
    device: str, number: int, begin: float, ended: float | None, peak: float, event: str = "{}"
) -> StoredEvent:
    return StoredEvent(device, number, begin, ended, peak, json.loads(event))


def _columns(event: dict[str, Any], now: float) -> tuple[Any, ...]:
    """Return an event's columns; one whose rows have no time is of the time of the report."""
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


async def _waiting_commands(tx: Transaction, federation: str, device: str) -> list[Command]:
    rows = await tx.fetch(f"{_COMMAND} AND done IS NULL ORDER BY asked_at, id", federation, device)
    return [_command(*row).command for row in rows]


async def _end_command(
    tx: Transaction, federation: str, device: str, result: CommandResult
) -> None:
    await tx.execute(
        "UPDATE command SET done = $2, refused = $3, said = $4 WHERE id = $1",
        result.command,
        result.time,
        result.refused,
        json.dumps(result.said),
    )
    detail = {"command": result.command, "refused": result.refused}
    await record(tx, federation, by_device(device), "command done", device=device, **detail)


def _command(*columns: Any) -> StoredCommand:
    name, action, words, asked_by, asked_at, device, done, refused, said = columns
    return StoredCommand(
        Command(name, action, json.loads(words), asked_by, asked_at),
        device,
        done,
        None if refused is None else bool(refused),
        () if said is None else tuple(json.loads(said)),
    )
