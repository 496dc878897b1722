"""Devices that fetch entries from each other directly, without a server."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elmgrove.errors import ElmgroveError
from elmgrove.exchange.asking import SECONDS, client, request
from elmgrove.exchange.base import PATH, SyncReport, Unreachable
from elmgrove.exchange.offering import Offering
from elmgrove.exchange.steps import Steps
from elmgrove.federation import (
    SUM,
    Cost,
    Entry,
    Everyone,
    Member,
    Rule,
    entry_from_bytes,
    unbundle,
    within,
)

log = logging.getLogger("elmgrove.exchange")
#: Bytes that a peer may tell: a thousand devices of 64 kB each.
MOST_PULLED = 64_000_000


def pull(url: str, *, token: str | None = None, timeout: float = SECONDS) -> list[Entry]:
    """Fetches all that the agent at ``url`` has to tell: its own entry and those it received."""
    with client(url, token, timeout=timeout, root="") as opened:
        answer = request(opened, "GET", PATH, most=MOST_PULLED)
        with answer.reading():
            return [entry_from_bytes(blob) for blob in unbundle(answer.content)]


@dataclass(frozen=True)
class PulledEntries:
    """What came from the peers that could be reached, and why the others could not."""

    entries: list[Entry]
    failures: list[str]
    asked: bool = False


class PeerSession(Steps):
    """Keeps a member in step with other agents; the steps are those of ``Session``.

    Entries travel on through the agents that received them, so not every one needs to reach all.
    With a budget, the peers that took the least time and bytes the last time are asked first.
    """

    def __init__(
        self,
        member: Member,
        urls: Sequence[str],
        *,
        token: str | None = None,
        rule: Rule | None = None,
        budget: Cost | None = None,
        guarded: bool = True,
        save: Callable[[Member], None] = lambda member: None,
    ) -> None:
        self.member = member
        self._token = token
        self._rule = rule or Everyone()
        self._budget = budget
        self._guarded = guarded
        self._save = save
        self._costs = dict.fromkeys(urls, Cost(0.0, 0.0))
        # Where there is nobody to ask, nobody is asked.
        self._offering = Offering(member, guarded, save, asks=bool(urls))

    def prepare(self) -> bool:
        """Lets the listener give away what the guard allows; there is nothing to send.

        Says whether the answer is to tell what a former self gave away.
        """
        asks = self._offering.asks
        self._offering.offer()
        return asks

    def transfer(self, asks: bool) -> PulledEntries:
        """Asks the peers, and touches nothing of the member: may run in any thread."""
        budget = self._budget or Cost()
        entries, failures = list[Entry](), list[str]()
        for url in within(budget, self._costs):
            began = time.monotonic()
            try:
                found = pull(url, token=self._token)
            except ElmgroveError as error:
                failures.append(f"{url}: {error}")
                continue
            size = sum(len(entry.to_bytes()) for entry in found)
            self._costs[url] = Cost(time.monotonic() - began, size)
            entries += found
        if failures and len(failures) == len(self._costs):
            raise Unreachable("; ".join(failures))
        return PulledEntries(entries, failures, asks)

    def apply(self, pulled: PulledEntries) -> SyncReport:
        """Lets the member learn what came."""
        member = self.member
        before = member.ledger.entries, member.lead
        if member.merged is not None and not member.merges:
            # A server told it of all others at once before.
            member.rest_on(None)
        refused: list[ElmgroveError] = member.receive_all(pulled.entries)
        if self._rule.needs != SUM:
            ridge = member.detector.model.ridge
            chosen = self._rule.choose(member.contribution(), ridge, list(member.ledger))
            member.receive_all((), only={contribution.origin for contribution in chosen})
        again = self._offering.answered(asked=pulled.asked)
        failure = self._offering.held_back
        held_back = [] if failure is None else [str(failure)]
        reasons = held_back + pulled.failures + [str(error) for error in refused]
        return SyncReport.of(
            member,
            guarded=self._guarded,
            devices=len(member.ledger),
            updated=(member.ledger.entries, member.lead) != before,
            refusal="; ".join(reasons) or None,
            again=again,
        )

    def close(self) -> None:
        """Does nothing: no connection is kept."""
