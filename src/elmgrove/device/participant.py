"""Taking part in a federation in rounds on a server: waits, trains when drawn, answers, goes on."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from elmgrove.exchange import HttpRounds, Unreachable
from elmgrove.federation import Merged, Refused
from elmgrove.rounds import Agenda, Client, Loss, reason
from elmgrove.storage import load, save, seal, unpacking, unseal

T = TypeVar("T")

#: The format of the file in which a client remembers what it did.
ANSWER_FORMAT = "elmgrove.answer"
#: Seconds for which a client waits for its turn with one request.
WAIT = 20
# Seconds until it asks again a server that can't be reached: twice as many each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

#: Makes the client for an agenda and a request, with what it remembers.
Make = Callable[[Agenda, bytes, bytes], Client]


@dataclass(frozen=True)
class SavedAnswer:
    """What a client answered last, and what it remembers after that: written before it is sent.

    So a client that is ended and started again sends the same again, and learns no row twice.
    """

    #: Whether only its owner may read a new file of it.
    private: ClassVar[bool] = True

    number: int
    reply: bytes
    memory: bytes

    def to_bytes(self) -> bytes:
        """Gives the file: sealed, with a checksum."""
        parts = {"reply": self.reply, "memory": self.memory}
        arrays = {name: np.frombuffer(part, np.uint8) for name, part in parts.items()}
        return seal(ANSWER_FORMAT, {"number": self.number}, arrays)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "SavedAnswer":
        """Makes an answer of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        fields, arrays = unseal(ANSWER_FORMAT, blob)
        with unpacking("an answer"):
            return cls(int(fields["number"]), arrays["reply"].tobytes(), arrays["memory"].tobytes())


class Ending(NamedTuple):
    """What a client has at the end: what all know together, and how well its gift does on its rows.

    ``down`` are the bytes that it got for that.
    """

    merged: Merged
    loss: Loss
    down: int


class Participant:
    """Takes part in the rounds of a federation, until they are over.

    A server that can't be reached is asked again and again. What was answered is kept in a file, if
    there is one. ``tell`` hears what happens; ``stop`` ends the waiting.
    """

    def __init__(
        self,
        server: HttpRounds,
        make: Make,
        *,
        kept: Path | None = None,
        tell: Callable[[str], None] = lambda text: None,
        stop: threading.Event | None = None,
    ) -> None:
        self._server = server
        self._make = make
        self._kept = kept
        self._tell = tell
        self._stop = stop or threading.Event()
        self._last: SavedAnswer | None = None
        self._client: Client | None = None
        if kept is not None and kept.exists():
            self._last = load(kept, SavedAnswer.from_bytes)

    def run(self) -> Ending | None:
        """Takes part to the end; None if it was stopped before."""
        agenda = self._patiently(lambda: Agenda.from_fields(self._server.show()["agenda"]))
        told = -1
        while agenda is not None and not self._stop.is_set():
            turn = self._patiently(lambda: self._server.turn(WAIT))
            if turn is None:
                break
            if turn.ended:
                return self._end(agenda)
            if turn.asked:
                self._answer(agenda, turn.number)
            elif turn.number != told:
                self._tell(_waiting(turn.number, agenda))
            told = turn.number
            if turn.again:
                self._stop.wait(turn.again)
        return None

    def _answer(self, agenda: Agenda, number: int) -> None:
        try:
            last = self._last
            if last is None or last.number != number:
                request = self._patiently(lambda: self._server.request(number))
                last = None if request is None else self._trained(agenda, request, number)
            if last is None:
                return
            reply = last.reply
            used = self._patiently(lambda: self._server.reply(number, reply))
        except Refused as error:
            self._tell(f"Round {number}: left out. {error}")
            return
        if used is not None:
            said = f"answered with {len(reply):,} bytes" if used else "nothing new to answer"
            self._tell(f"Round {number} of {agenda.rounds}: {said}.")

    def _trained(self, agenda: Agenda, request: bytes, number: int) -> SavedAnswer | None:
        """Trains, and keeps the answer; None if that failed, which the server is told."""
        try:
            client = self._known(agenda, request)
            reply = client.train(request, number)
        except Exception as error:  # whatever it is, nobody is to wait for this client
            why = reason(error)
            self._patiently(lambda: self._server.reply(number, b"", failed=why))
            if self._client is None:  # it could not even be made: nor will it be in another round
                raise
            self._tell(f"Round {number}: left out. {why}")
            return None
        self._last = SavedAnswer(number, reply, client.memory)
        if self._kept is not None:
            save(self._kept, self._last)
        return self._last

    def _known(self, agenda: Agenda, request: bytes) -> Client:
        if self._client is None:
            memory = b"" if self._last is None else self._last.memory
            self._client = self._make(agenda, request, memory)
        return self._client

    def _end(self, agenda: Agenda) -> Ending | None:
        request = self._patiently(lambda: self._server.request(agenda.rounds + 1))
        gift = None if request is None else self._patiently(self._server.gift)
        model = None if gift is None else self._patiently(self._server.model)
        if request is None or gift is None or model is None:
            return None
        loss = self._known(agenda, request).receive(request, gift, agenda.rounds)
        return Ending(Merged.from_bytes(model), loss, len(request) + len(gift))

    def _patiently(self, ask: Callable[[], T]) -> T | None:
        """Asks until there is an answer; None if that was stopped."""
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            try:
                return ask()
            except Unreachable as error:
                if pause == _FIRST_PAUSE:
                    self._tell(f"{error}. Trying again until it answers.")
                self._stop.wait(max(pause, error.retry_after))
                pause = min(2 * pause, _LONGEST_PAUSE)
        return None


def _waiting(number: int, agenda: Agenda) -> str:
    if number == 0:
        return f"Waiting until {agenda.clients} clients have joined {agenda.name}."
    return f"Round {number} of {agenda.rounds}: not drawn, or answered. Waiting for the next."
