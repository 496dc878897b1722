"""A fleet in one process: real members and sessions, and where they meet: here or on a server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from elmgrove.algebra import Array, Basis
from elmgrove.cli import DemoProcesses, DemoServer
from elmgrove.detector import Detector, PatternRule
from elmgrove.errors import require_extra
from elmgrove.exchange import Exchange, HttpExchange, MemoryExchange, Session
from elmgrove.exchange.http import client, request
from elmgrove.federation import (
    Charter,
    Contribution,
    Member,
    Rule,
)

#: Founds a federation, and gives each device, by its name, its way there.
Meeting = Callable[[Charter], Callable[[str], Exchange]]


def in_memory(charter: Charter) -> Callable[[str], Exchange]:
    """Lets all devices meet in this process."""
    exchange = MemoryExchange(charter)
    return lambda name: exchange


@contextmanager
def meeting(server: bool) -> Iterator[Meeting]:
    """Gives devices a place to meet: memory, or an ``elmgrove serve`` that ends with the figure."""
    if not server:
        yield in_memory
        return
    require_extra("granian", "server")
    with (
        TemporaryDirectory(prefix="elmgrove-paper-") as scratch,
        DemoProcesses(Path(scratch)) as processes,
    ):
        yield _on(DemoServer(processes).wait())


def _on(server: DemoServer) -> Meeting:
    """Each fleet has a federation of its own there, and each device its own key and connection."""
    numbers = count(1)

    def founded(charter: Charter) -> Callable[[str], Exchange]:
        named = replace(charter, name=f"{charter.name}-{next(numbers)}")
        with client(server.url, server.admin_token) as opened:
            token = request(opened, "POST", "", json=named.fields).read(str, "token")
        return lambda device: HttpExchange(f"{server.url}/{named.name}", device, token=token)

    return founded


class Fleet:
    """Devices by name; with a ``rule`` each has a model for each of its patterns.

    ``meeting`` says where they meet: here, or on a real server; ``merged`` whether
    one model of all decides, as in the papers; ``merge`` which of them it uses. The upload guard is
    off: the papers' clients have as few rows as nine, which it would not let out.
    """

    def __init__(
        self,
        basis: Basis,
        rule: PatternRule | None = None,
        meeting: Meeting = in_memory,
        merged: bool = True,
        merge: Rule | None = None,
    ) -> None:
        self._charter = Charter("paper", basis, merged=merged)
        self._exchange_of = meeting(self._charter)
        self._rule = rule
        self._merge = merge
        self._sessions: dict[str, Session] = {}

    def learn(self, name: str, rows: Array) -> None:
        """Lets a device learn normal rows; a new one joins the fleet by that."""
        if name not in self._sessions:
            self.join(self._charter.start(name, patterns=self._rule))
        self.detector(name).learn_many(rows)

    def join(self, member: Member) -> None:
        """Takes in a device that may have learned already."""
        self._sessions[member.name] = Session(
            member,
            self._exchange_of(member.name),
            rule=self._merge,
            guarded=False,
        )

    def sync(self) -> None:
        """Lets every device publish, then every device take in what the others published."""
        self._publish()
        for session in self._sessions.values():
            self._take_in(session)

    def each_synced(self) -> Iterator[Detector]:
        """Gives the detectors as they are after a sync, each until the next one is asked for.

        Then it forgets what it received: n devices with patterns would hold n² models at once,
        13 GB for 100 of 64 units and 1,024 columns.
        """
        self._publish()
        for session in self._sessions.values():
            self._take_in(session)
            yield session.detector
            session.member.set_prior(None)

    def _take_in(self, session: Session) -> None:
        """Lets a device take in what the others published.

        Where others are asked, all of them are, each by name: a sync would tell of groups of them.
        """
        member = session.member
        if member.merges:
            session.sync()
            return
        others = [one.member for one in self._sessions.values() if one.member is not member]
        shared = [one.shared for one in others]
        member.receive_all([one for one in shared if one is not None], {one.name for one in others})

    def _publish(self) -> None:
        for session in self._sessions.values():
            for entry in session.prepare().entries:
                session.exchange.publish(entry)

    def leave(self, name: str) -> None:
        """Takes a device out; the others know at their next sync."""
        self._sessions.pop(name).leave()

    def detector(self, name: str) -> Detector:
        """Gives the detector of a device."""
        return self._sessions[name].detector

    def contribution(self, name: str) -> Contribution:
        """Gives what a device learned itself, by pattern."""
        return self._sessions[name].member.contribution()

    def close(self) -> None:
        """Lets go of connections; only a server's need it."""
        for session in self._sessions.values():
            session.close()
