"""What devices published, as operations: one revision after the other, without gaps."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from elmgrove.server.operations import Operation, Statement, known
from elmgrove.server.records import Change, Entry

# How many further revisions a superseded blob is kept for.
KEEP = 256
# The name that no device has.
NOBODY = ""

ENTRY = "e.origin, e.revision, e.epoch, e.count, e.digest, e.size, e.received, e.digest = ''"
NEWEST = "e.federation = $1 AND e.superseded IS NULL"
WITH_CONTENT = "JOIN content c ON c.federation = e.federation AND c.revision = e.revision"


def entry(federation: str, origin: str) -> Operation[Entry | None]:
    rows = yield (f"SELECT {ENTRY} FROM entry e WHERE {NEWEST} AND origin = $2", federation, origin)
    return _entry(rows[0]) if rows else None


def entries(federation: str) -> Operation[list[Entry]]:
    rows = yield (f"SELECT {ENTRY} FROM entry e WHERE {NEWEST} ORDER BY origin", federation)
    return [_entry(row) for row in rows]


def _entry(row: Sequence[Any]) -> Entry:
    fields = [*row[:-1], bool(row[-1])]
    return Entry(*fields)


def blob(federation: str, origin: str) -> Operation[tuple[Entry, bytes] | None]:
    select = f"SELECT {ENTRY}, c.blob FROM entry e {WITH_CONTENT} WHERE {NEWEST} AND origin = $2"
    rows = yield (select, federation, origin)
    return (_entry(rows[0][:-1]), rows[0][-1]) if rows else None


def revision(federation: str, besides: str) -> Operation[int]:
    # The newest entry of an origin is never pruned, so the table knows. At most KEEP entries of
    # ``besides`` are passed over, from the end of the primary key's index.
    select = """SELECT revision FROM entry WHERE federation = $1 AND origin <> $2
        ORDER BY revision DESC LIMIT 1"""
    rows = yield (select, federation, besides)
    return int(rows[0][0]) if rows else 0


def put(
    federation: str, made: Entry, content: bytes | None, successor: Callable[[Entry | None], bool]
) -> Operation[Entry | Exception]:
    """Returns what ``successor`` raises: a back end's own errors can't be mistaken for it."""
    yield from known(federation)
    held = yield from entry(federation, made.origin)
    try:
        news = successor(held)
    except Exception as refusal:  # the caller's own rule, so the caller's own errors
        return refusal  # nothing was written yet
    if not news:
        return KeyError(made.origin) if held is None else held
    made = replace(made, revision=1 + (yield from revision(federation, NOBODY)))
    yield from _supersede(federation, held, made)
    if content is not None:
        insert = "INSERT INTO content (federation, revision, blob) VALUES ($1, $2, $3)"
        yield (insert, federation, made.revision, content)
    pruning = "DELETE FROM entry WHERE federation = $1 AND superseded <= $2"
    yield (pruning, federation, made.revision - KEEP)
    return made


def _supersede(federation: str, held: Entry | None, made: Entry) -> Operation[None]:
    if held is not None:
        mark = "UPDATE entry SET superseded = $3 WHERE federation = $1 AND revision = $2"
        yield (mark, federation, held.revision, made.revision)
    yield (
        """INSERT INTO entry (federation, origin, revision, epoch, count, digest, size, received,
        replaced) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)""",
        federation,
        made.origin,
        made.revision,
        made.epoch,
        made.count,
        made.digest,
        made.size,
        made.received,
        None if held is None else held.revision,
    )


def changes(federation: str, since: int, limit: int) -> Operation[list[Change] | None]:
    yield from known(federation)
    if since <= 0 or since > (yield from revision(federation, NOBODY)):
        return None
    steps = yield (
        """SELECT e.revision, e.origin, e.replaced, p.revision FROM entry e
        LEFT JOIN entry p ON p.federation = e.federation AND p.revision = e.replaced
        WHERE e.federation = $1 AND e.revision > $2 ORDER BY e.revision LIMIT $3""",
        federation,
        since,
        limit,
    )
    for expected, (found, _, replaced, kept) in enumerate(steps, since + 1):
        if found != expected or replaced != kept:
            return None
    # Only now the blobs: when one is gone, none is read.
    blobs = yield (
        """SELECT c.blob, p.blob FROM entry e
        LEFT JOIN content c ON c.federation = e.federation AND c.revision = e.revision
        LEFT JOIN content p ON p.federation = e.federation AND p.revision = e.replaced
        WHERE e.federation = $1 AND e.revision > $2 ORDER BY e.revision LIMIT $3""",
        federation,
        since,
        limit,
    )
    return [Change(*step[:2], *pair) for step, pair in zip(steps, blobs, strict=True)]


def snapshot_revision(federation: str) -> Operation[int]:
    yield from known(federation)
    return (yield from revision(federation, NOBODY))


def snapshot_blobs(federation: str) -> Statement:
    select = f"SELECT e.origin, c.blob FROM entry e {WITH_CONTENT} WHERE {NEWEST} ORDER BY e.origin"
    return select, federation
