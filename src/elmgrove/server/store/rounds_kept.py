"""Rounds in the store: where each federation in rounds stands, its replies and its reports."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elmgrove.server.store.chain import SERVER, by_device, reads, record, writes
from elmgrove.server.store.database import Operation
from elmgrove.server.store.enrolment import inserted, require_federation, valid_devices
from elmgrove.server.store.entries import Entries
from elmgrove.server.store.records import FederationRow, HeldRounds, RoundsRow, StoredReply

#: Draws those who are asked in a round out of those who joined; pure and quick.
Draw = Callable[[Sequence[str]], Sequence[str]]

_ROUNDS = "SELECT federation, number, last, asked, began, until FROM rounds"
_REPLY = "SELECT number, origin, blob, digest, unusable FROM reply WHERE federation = $1"


class RoundsKept(Entries):
    """The store's operations on federations in rounds.

    See ``Store``, which adds the others, for what holds for all methods. Those on a federation
    without rounds find None, or do nothing.
    """

    async def create_rounds(
        self,
        made: FederationRow,
        last: int,
        request: bytes,
        progress: Mapping[str, Any],
        exam: bytes | None,
        *,
        actor: str = SERVER,
    ) -> bool:
        """Makes a federation in rounds. MUST return False and change nothing for a taken name."""
        return await self.write(made.name, _create(made, last, request, progress, exam, actor))

    @reads
    def rounds(self, federation: str) -> Operation[RoundsRow | None]:
        """Tells where a federation stands; None if it has no rounds."""
        return (yield from _standing(federation))

    @reads
    def rounds_under_way(self) -> Operation[list[RoundsRow]]:
        """Tells where all federations stand whose last round is not over."""
        found = list[RoundsRow]()
        for row in (yield (f"{_ROUNDS} WHERE number <= last ORDER BY federation",)):
            found.append((yield from _with_replied(*row)))
        return found

    @reads
    def round_request(self, federation: str) -> Operation[tuple[int, bytes] | None]:
        """Gives the number of the round and its request; after the last round, that after it."""
        select = """SELECT r.number, h.request FROM rounds r
            JOIN rounds_held h ON h.federation = r.federation WHERE r.federation = $1"""
        rows = yield (select, federation)
        return (rows[0][0], rows[0][1]) if rows else None

    @reads
    def rounds_held(self, federation: str) -> Operation[HeldRounds | None]:
        """Gives all that the round is closed with. MUST be of one moment."""
        state = yield from _standing(federation)
        if state is None:
            return None
        select = "SELECT progress, request, exam FROM rounds_held WHERE federation = $1"
        ((progress, request, exam),) = yield (select, federation)
        rows = yield (f"{_REPLY} ORDER BY origin, number", federation)
        replies = tuple(StoredReply(*row) for row in rows)
        return HeldRounds(state, json.loads(progress), request, exam, replies)

    @reads
    def replies_held(self, federation: str) -> Operation[frozenset[tuple[str, str]]]:
        """Names the replies that are there by origin and digest. MUST be quick."""
        rows = yield ("SELECT origin, digest FROM reply WHERE federation = $1", federation)
        return frozenset((origin, digest) for origin, digest in rows)

    @reads
    def round_reports(self, federation: str) -> Operation[list[dict[str, Any]]]:
        """Lists the reports of all rounds that are over. MUST be in the order of the rounds."""
        select = "SELECT report FROM report WHERE federation = $1 ORDER BY number"
        rows = yield (select, federation)
        if not rows:
            yield from require_federation(federation)
        return [json.loads(row[0]) for row in rows]

    @writes
    def begin_rounds(
        self, federation: str, least: int, draw: Draw, now: float, until: float
    ) -> Operation[bool]:
        """Begins the first round, if so many devices have joined; says whether it did.

        MUST begin it once, also if several ask at the same time.
        """
        state = yield from _standing(federation)
        names = yield from valid_devices(federation, now)
        if state is None or state.number or len(names) < least:
            return False
        asked = sorted(draw(names))
        yield from _ask(federation, 1, asked, now, until)
        yield from record(federation, SERVER, "rounds begun", joined=len(names), asked=asked)
        return True

    @writes
    def put_reply(self, federation: str, reply: StoredReply, now: float) -> Operation[str | None]:
        """Stores a reply to the round that is held; None if it is there, or why it came in vain.

        The same twice is once. One that can't be used is stored without its bytes, so that nobody
        waits for another.
        """
        state = yield from _standing(federation)
        if state is None or reply.number > state.number:
            return f"there is no round {reply.number}"
        where = f"{_REPLY} AND number = $2 AND origin = $3"
        rows = yield (where, federation, reply.number, reply.origin)
        if rows:
            held = StoredReply(*rows[0])
            return None if held.digest == reply.digest else "another reply to it is there already"
        if reply.number < state.number or now >= state.until:
            return f"round {reply.number} is over"
        if reply.origin not in state.asked:
            return f"{reply.origin!r} was not drawn for round {reply.number}"
        yield from _insert_reply(federation, reply)
        return None

    @writes
    def close_round(
        self,
        federation: str,
        seen: RoundsRow,
        request: bytes,
        progress: Mapping[str, Any],
        report: Mapping[str, Any],
        kept: Sequence[str],
        draw: Draw,
        now: float,
        until: float,
    ) -> Operation[bool]:
        """Ends the round that was ``seen`` and begins the next one; says whether it did.

        MUST do nothing if it is over already, or a reply came or went since: then look again. Of
        the replies to it those are ``kept`` that the rule needs, in place of earlier ones.
        """
        state = yield from _standing(federation)
        if state is None or (state.number, state.replied) != (seen.number, seen.replied):
            return False
        yield from _keep(federation, state, kept)
        updating = "UPDATE rounds_held SET progress = $2, request = $3 WHERE federation = $1"
        yield (updating, federation, json.dumps(dict(progress)), request)
        inserting = "INSERT INTO report (federation, number, report) VALUES ($1, $2, $3)"
        yield (inserting, federation, state.number, json.dumps(dict(report)))
        names = yield from valid_devices(federation, now)
        asked = sorted(draw(names)) if state.number < state.last else []
        yield from _ask(federation, state.number + 1, asked, now, until)
        stated = {"round": state.number, "answered": report["answered"]}
        stated |= {"left_out": report["left_out"], "asked_next": asked}
        yield from record(federation, SERVER, "round closed", **stated)
        return True


def _create(
    made: FederationRow,
    last: int,
    request: bytes,
    progress: Mapping[str, Any],
    exam: bytes | None,
    actor: str,
) -> Operation[bool]:
    if not (yield from inserted(made, actor)):
        return False
    yield (
        """INSERT INTO rounds (federation, number, last, asked, began, until)
        VALUES ($1, 0, $2, '[]', $3, $3)""",
        made.name,
        last,
        made.created,
    )
    inserting = """INSERT INTO rounds_held (federation, progress, request, exam)
        VALUES ($1, $2, $3, $4)"""
    yield (inserting, made.name, json.dumps(dict(progress)), request, exam)
    return True


def _standing(federation: str) -> Operation[RoundsRow | None]:
    rows = yield (f"{_ROUNDS} WHERE federation = $1", federation)
    if rows:
        return (yield from _with_replied(*rows[0]))
    yield from require_federation(federation)
    return None


def _with_replied(
    federation: str, number: int, last: int, asked: str, began: float, until: float
) -> Operation[RoundsRow]:
    select = "SELECT origin FROM reply WHERE federation = $1 AND number = $2"
    rows = yield (select, federation, number)
    replied = frozenset(row[0] for row in rows)
    return RoundsRow(federation, number, last, tuple(json.loads(asked)), began, until, replied)


def _ask(
    federation: str, number: int, asked: Sequence[str], now: float, until: float
) -> Operation[None]:
    yield (
        """UPDATE rounds SET number = $2, asked = $3, began = $4, until = $5
        WHERE federation = $1""",
        federation,
        number,
        json.dumps(list(asked)),
        now,
        until,
    )


def _insert_reply(federation: str, reply: StoredReply) -> Operation[None]:
    yield (
        """INSERT INTO reply (federation, number, origin, digest, unusable, blob)
        VALUES ($1, $2, $3, $4, $5, $6)""",
        federation,
        reply.number,
        reply.origin,
        reply.digest,
        reply.unusable,
        reply.blob,
    )
    stated: dict[str, Any] = {"device": reply.origin, "round": reply.number}
    stated |= {"unusable": reply.unusable} if reply.unusable else {"size": len(reply.blob)}
    act = "replied"
    yield from record(federation, by_device(reply.origin), act, **stated, digest=reply.digest)


def _keep(federation: str, state: RoundsRow, kept: Sequence[str]) -> Operation[None]:
    """Leaves of each origin the reply that is needed, and no other."""
    earlier = "DELETE FROM reply WHERE federation = $1 AND origin = $2 AND number < $3"
    this = "DELETE FROM reply WHERE federation = $1 AND origin = $2 AND number = $3"
    for origin in sorted(state.replied):
        yield (earlier if origin in kept else this, federation, origin, state.number)
