"""Events in the store: what devices reported of each, and when it was."""

import json
from collections.abc import Sequence
from typing import Any

from elmgrove.federation.report import Summary, seconds_of
from elmgrove.server.store.chain import reads
from elmgrove.server.store.commands import CommandsKept
from elmgrove.server.store.database import Operation, places, upsert
from elmgrove.server.store.records import Occurrence

#: Events that are kept of a device, and the letters of all of them as JSON, at most.
MOST_OCCURRENCES, MOST_LETTERS = 5000, 5 * 2**20
#: What is a device's, in a table of what devices tell.
OF_DEVICE = "federation = $1 AND device = $2"


class OccurrencesKept(CommandsKept):
    """The store's operations on events.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @reads
    def occurrences(
        self, federation: str, device: str, begin: float, end: float, limit: int
    ) -> Operation[list[Occurrence]]:
        """Lists the newest events of a device that touch a time, newest first.

        An open one touches all that came after its begin.
        """
        rows = yield (
            # Not by the index of all devices' events.
            f"""SELECT device, number, begin, ended, peak, event FROM occurrence
            WHERE {OF_DEVICE} AND begin < $3 AND (ended IS NULL OR ended >= $4)
            ORDER BY -begin, number DESC LIMIT {limit:d}""",
            federation,
            device,
            end,
            begin,
        )
        return [_occurrence(*row) for row in rows]

    @reads
    def event_times(
        self, federation: str, devices: Sequence[str], begin: float, end: float, each: int
    ) -> Operation[list[Occurrence]]:
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
            FROM occurrence WHERE federation = $1 AND begin < $2
            AND (ended IS NULL OR ended >= $3) AND device IN ({places(4, len(devices))})) newest
            WHERE place <= {each:d} ORDER BY begin DESC, device, number DESC""",
            federation,
            end,
            begin,
            *devices,
        )
        return [_occurrence(*row) for row in rows]


def add_events(federation: str, summary: Summary, received: float) -> Operation[None]:
    """Keeps the events of a summary, and ends those that it tells of no more."""
    device = (federation, summary.device)
    if summary.events:
        rows = [(*device, *_columns(event, summary.time), received) for event in summary.events]
        yield upsert(
            "occurrence (federation, device, number, mark, begin, ended, peak, event, received)",
            rows,
            """(federation, device, number, mark) DO UPDATE SET ended = excluded.ended,
            peak = excluded.peak, event = excluded.event WHERE occurrence.event <> excluded.event
            OR (occurrence.ended IS NULL) <> (excluded.ended IS NULL)""",
        )
    yield from _end_others(federation, summary)
    if summary.events:
        yield (
            f"""DELETE FROM occurrence WHERE {OF_DEVICE} AND (number, mark) IN (
            SELECT number, mark FROM (SELECT number, mark, ROW_NUMBER() OVER newest AS place,
            SUM(LENGTH(event)) OVER newest AS letters FROM occurrence WHERE {OF_DEVICE}
            WINDOW newest AS (ORDER BY begin DESC, number DESC, mark)) kept
            WHERE place > {MOST_OCCURRENCES} OR letters > {MOST_LETTERS})""",
            *device,
        )


def _end_others(federation: str, summary: Summary) -> Operation[None]:
    """Ends the events that a device tells of no more: when, by the time of its rows.

    A file that is read years later has its events in its own time. Where rows have no time, an
    event is of the time when it was told.
    """
    device, lasting = (federation, summary.device), sorted(_lasting(summary))
    among = f" AND number NOT IN ({places(3, len(lasting))})" if lasting else ""
    select = (
        f"SELECT number, mark, begin FROM occurrence WHERE {OF_DEVICE} AND ended IS NULL{among}"
    )
    over = yield (select, *device, *lasting)
    if not over:
        return
    newest = f"SELECT minutes FROM hour WHERE {OF_DEVICE} ORDER BY hour DESC LIMIT 1"
    minutes = [one.minute for one in summary.minutes]
    for (written,) in [] if minutes else (yield (newest, *device)):
        minutes = [one[0] for one in json.loads(written)]
    for number, mark, begin in over:
        end = max(minutes) * 60.0 + 60.0 if minutes and not mark.isdigit() else summary.time
        ending = f"UPDATE occurrence SET ended = $5 WHERE {OF_DEVICE} AND number = $3 AND mark = $4"
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


def _lasting(summary: Summary) -> set[int]:
    """The numbers of events that have not ended, by all that the device says."""
    found = {event["number"] for event in summary.events if event["end"] is None}
    number = (summary.status["event"] or {}).get("number")
    return found | ({number} if type(number) is int else set())


def _occurrence(
    device: str, number: int, begin: float, ended: float | None, peak: float, event: str
) -> Occurrence:
    return Occurrence(device, number, begin, ended, peak, json.loads(event))
