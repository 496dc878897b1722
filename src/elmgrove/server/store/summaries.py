"""Summaries in the store: what devices report of themselves, by the minute and by events."""

import asyncio
import json
from collections import defaultdict
from typing import Any

from elmgrove.federation.commands import Command
from elmgrove.federation.report import MOST_RESULTS, Minute, Summary
from elmgrove.server.store.chain import OWN_CHAIN, reads, writes
from elmgrove.server.store.commands import end_command, open_commands
from elmgrove.server.store.database import Operation, places, upsert
from elmgrove.server.store.enrolment import changed, require_federation
from elmgrove.server.store.occurrences_kept import OF_DEVICE, OccurrencesKept, add_events
from elmgrove.server.store.records import ToldRow

#: Hours that are kept of a device, at most: 100 days.
MOST_HOURS = 2400
#: Hours of one summary, the newest; a device that syncs has one or two.
MOST_HOURS_AT_ONCE = 168
#: What is deleted for its age in one transaction, so that others need not wait long for it.
FORGOTTEN_AT_ONCE = 1000
# A device is late that was not heard of for so many times its own interval, and some seconds.
_LATE, _GRACE = 3.0, 30.0


class Summaries(OccurrencesKept):
    """The store's operations on what devices tell of themselves.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @writes
    def take_summary(
        self, federation: str, summary: Summary, received: float
    ) -> Operation[list[Command]]:
        """Takes what a device tells in the place of what it told before; gives its commands.

        MUST keep one of each minute and event, the last that was told; an event that is no longer
        told of has ended. An outcome of a command that is not open, or another device's, changes
        nothing. What is more than is kept of one device MUST go, the oldest first. Commands are the
        oldest, as many as a summary can tell the outcomes of.
        """
        yield from require_federation(federation)
        yield from _tell(federation, summary, received)
        yield from _add_minutes(federation, summary, received)
        yield from add_events(federation, summary, received)
        commands = yield from open_commands(federation, summary.device)
        done = {outcome.command: outcome for outcome in summary.outcomes}
        for command in commands:
            if command.id in done:
                yield from end_command(federation, summary.device, command, done[command.id])
        yield from changed(federation)
        return [command for command in commands if command.id not in done][:MOST_RESULTS]

    @reads
    def told(self, federation: str, device: str) -> Operation[ToldRow | None]:
        """Gives what a device last told of itself, without minutes and events."""
        select = """SELECT t.device, t.received, t.time, t.due, s.summary FROM told t
            JOIN summary s ON s.federation = t.federation AND s.device = t.device
            WHERE t.federation = $1 AND t.device = $2"""
        rows = yield (select, federation, device)
        if not rows:
            yield from require_federation(federation)
            return None
        device, received, time, due, summary = rows[0]
        return ToldRow(device, received, time, due, json.loads(summary))

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

        Commands, and what a device last told of itself, go with events; visits that expired go too.
        """
        return await self.write(OWN_CHAIN, _forget(minutes_until, events_until, now))


def _tell(federation: str, summary: Summary, received: float) -> Operation[None]:
    every = summary.status["sync_seconds"]
    yield (
        """INSERT INTO told (federation, device, received, time, due, state, learned, event, drift)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT (federation, device) DO UPDATE SET received = excluded.received,
        time = excluded.time, due = excluded.due, state = excluded.state,
        learned = excluded.learned, event = excluded.event, drift = excluded.drift""",
        federation,
        summary.device,
        received,
        summary.time,
        None if every is None else received + _LATE * every + _GRACE,
        summary.state,
        summary.learned,
        summary.event_open,
        summary.drifts,
    )
    kept = ("status", "cooperation", "quarantine")
    told = {name: value for name, value in summary.fields.items() if name in kept}
    yield (
        """INSERT INTO summary (federation, device, summary) VALUES ($1, $2, $3)
        ON CONFLICT (federation, device) DO UPDATE SET summary = excluded.summary""",
        federation,
        summary.device,
        json.dumps(told, ensure_ascii=False),
    )


def _add_minutes(federation: str, summary: Summary, received: float) -> Operation[None]:
    hours: dict[int, dict[int, list[Any]]] = defaultdict(dict)
    for minute in summary.minutes:
        hours[minute.minute // 60][minute.minute] = _rounded(minute)
    newest = sorted(hours)[-MOST_HOURS_AT_ONCE:]
    if not newest:
        return
    device = (federation, summary.device)
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
        ("occurrence", "federation, device, number, mark", "received", events_until),
        ("command", "id", "asked_at", events_until),
        ("told", "federation, device", "received", events_until),
        ("visit", "id_hash", "expires", now),
    ):
        old = f"FROM {table} WHERE {age} < $1 ORDER BY {age}, {key} LIMIT {FORGOTTEN_AT_ONCE}"
        found = yield (f"SELECT {key} {old}", until)
        if found:
            yield (f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} {old})", until)
        total += len(found)
    yield (
        """DELETE FROM summary WHERE NOT EXISTS (SELECT 1 FROM told t
        WHERE t.federation = summary.federation AND t.device = summary.device)""",
    )
    return total


def _rounded(minute: Minute) -> list[Any]:
    """A minute's fields, its numbers as precisely as a picture shows them: there are many."""
    return [float(f"{one:.6g}") if isinstance(one, float) else one for one in minute.fields]


def _written(minutes: dict[int, list[Any]]) -> str:
    return json.dumps([minutes[one] for one in sorted(minutes)], separators=(",", ":"))
