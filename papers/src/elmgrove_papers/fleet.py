"""A fleet in one process: real members and sessions, and an exchange between them."""

from collections.abc import Callable
from typing import Any

from elmgrove.algebra import Array, Basis
from elmgrove.detector import PatternRule, Watcher
from elmgrove.exchange import Exchange, MemoryExchange, Session
from elmgrove.federation import Charter, Contribution, Member

#: Founds a federation, and gives each device, by its name, its way there.
Meeting = Callable[[Charter], Callable[[str], Exchange]]


def in_memory(charter: Charter) -> Callable[[str], Exchange]:
    """All devices meet in this process."""
    exchange = MemoryExchange(charter)
    return lambda name: exchange


class Fleet:
    """Devices by name; with a ``rule`` each has a model for each of its patterns.

    ``meeting`` says where they meet: here, or on a real server. The upload guard is off: the
    papers' clients have as few rows as nine, which it would not let out.
    """

    def __init__(
        self, basis: Basis, rule: PatternRule | None = None, meeting: Meeting = in_memory
    ) -> None:
        self._charter = Charter("paper", basis)
        self._exchange_of = meeting(self._charter)
        self._rule = rule
        self._sessions: dict[str, Session] = {}

    def learn(self, name: str, rows: Array) -> None:
        """Lets a device learn normal rows; a new one joins the fleet by that."""
        if name not in self._sessions:
            self.join(self._charter.start(name, patterns=self._rule))
        self.detector(name).learn_many(rows)

    def join(self, member: Member) -> None:
        """Takes in a device that may have learned already."""
        self._sessions[member.name] = Session(member, self._exchange_of(member.name), guarded=False)

    def sync(self) -> None:
        """Everybody publishes, then everybody takes in what the others published."""
        for session in self._sessions.values():
            for entry in session.prepare().entries:
                session.exchange.publish(entry)
        for session in self._sessions.values():
            session.sync()

    def leave(self, name: str) -> None:
        """Takes a device out; the others know at their next sync."""
        self._sessions.pop(name).leave()

    def detector(self, name: str) -> Watcher[Any]:
        """The detector of a device."""
        return self._sessions[name].detector

    def contribution(self, name: str) -> Contribution:
        """What a device learned itself, by pattern."""
        return self._sessions[name].member.contribution()

    def close(self) -> None:
        """Lets go of connections; only a server's need it."""
        for session in self._sessions.values():
            session.close()
