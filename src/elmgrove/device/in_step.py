"""In step: what an agent's sync with its exchange consists of."""

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmgrove.device.settings import Settings
from elmgrove.device.summary import AgentSummaries
from elmgrove.errors import ElmgroveError, Mismatch
from elmgrove.exchange import Exchange, Incoming, Outgoing, Session, SyncReport, keyfile
from elmgrove.federation import DAY, Errand, Member, Refused, Summary

log = logging.getLogger("elmgrove.device")

#: Seconds between two tries to change a key.
SECONDS_BETWEEN_KEYS = 3600.0


class AgentSession(Session):
    """A session that changes the device's key when it has become old, and tells how it is doing.

    A key is old after ``days`` (0: not by itself), and when two thirds of the time are over for
    which keys of the federation last. The age of a key is that of its file. What ``summaries`` tell
    goes with each sync, if there are any; a sync does not fail because it was not heard.
    """

    def __init__(
        self,
        member: Member,
        exchange: Exchange,
        keyfile: Path,
        days: float,
        summaries: AgentSummaries | None = None,
        **more: Any,
    ) -> None:
        super().__init__(member, exchange, **more)
        self._keyfile = keyfile
        self._days = days
        self._not_before = 0.0
        self._summaries = summaries
        # Why a summary was not taken the last time: told once.
        self._unheard = ""

    def prepare(self) -> Outgoing:
        """Gathers what to send now, and how the device is doing."""
        outgoing = super().prepare()
        if self._summaries is None:
            return outgoing
        return replace(outgoing, summary=self._summaries.make())

    def transfer(self, outgoing: Outgoing) -> Incoming:
        """Syncs, with a new key if the one that there is has become old."""
        self._rotate_key()
        try:
            incoming = super().transfer(outgoing)
        except Mismatch as error:
            if not self.member.alone:
                raise
            # The federation could not be asked when the agent began.
            raise Mismatch(
                f"{error}\nStart the agent again: it converts what it learned"
            ) from error
        if outgoing.summary is None:
            return incoming
        return replace(incoming, errands=self._report(outgoing.summary))

    def apply(self, incoming: Incoming) -> SyncReport:
        """Lets the member learn what came back, and takes what is asked of the device."""
        if self._summaries is None:
            return super().apply(incoming)
        updates = incoming.merged is not None or incoming.others is not None
        with self._summaries.comparing() if updates else nullcontext():
            report = super().apply(incoming)
        if incoming.errands is not None:
            self._summaries.heard(incoming.errands)
        return report

    def _report(self, summary: Summary) -> tuple[Errand, ...] | None:
        """What is asked of the device; None if what it told was not heard."""
        try:
            errands = self.exchange.report(summary)
        except ElmgroveError as error:
            if str(error) != self._unheard:
                log.warning("how the device is doing could not be told: %s", error)
            self._unheard = str(error)
            # What was refused would be so again; what did not arrive may the next time.
            return () if isinstance(error, Refused) else None
        self._unheard = ""
        return errands

    def _rotate_key(self) -> None:
        """Changes the key if it is old; where that can't be done, the old one will do for now."""
        if self._is_old() and time.monotonic() >= self._not_before:
            # Where it fails, not with each sync: each offer of a key is recorded by the server.
            self._not_before = time.monotonic() + SECONDS_BETWEEN_KEYS
            try:
                if self.exchange.rotate_key():
                    log.info("this device has a new key; the old one is worthless")
            except (ElmgroveError, OSError) as error:
                log.warning("the key of this device could not be changed: %s", error)

    def _is_old(self) -> bool:
        lasts = self.exchange.charter.terms.key_days
        limits = [self._days] * (self._days > 0) + ([] if lasts is None else [lasts * 2 / 3])
        if not limits or not self._keyfile.exists():
            return False
        return time.time() - self._keyfile.stat().st_mtime > min(limits) * DAY


def syncing_of(
    settings: Settings,
    member: Member,
    exchange: Exchange | None,
    save: Callable[[Member], None],
    summaries: AgentSummaries | None = None,
) -> AgentSession | None:
    """Gives what keeps the device in step with its exchange; None if it has none."""
    if exchange is None:
        return None
    path = keyfile(settings.path)
    assert path is not None
    return AgentSession(
        member,
        exchange,
        path,
        settings.rotate_key_days,
        summaries,
        rule=settings.rule,
        guarded=settings.guard,
        save=save,
    )
