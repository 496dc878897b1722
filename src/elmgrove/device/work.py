"""A member at work: each row scored, decided on and learned; saved, and in step with others."""

import logging
import time
from typing import cast

from elmgrove.device.alarms import Alarms
from elmgrove.device.courier import Courier, Partner
from elmgrove.device.listener import Listener
from elmgrove.device.settings import Settings
from elmgrove.device.sources import Bookmark, Reading, Source
from elmgrove.device.verdicts import Only, Verdicts, message
from elmgrove.errors import BadInput
from elmgrove.exchange import Exchange, Session
from elmgrove.exchange.peers import PeerSession
from elmgrove.federation import Member
from elmgrove.storage.disk import save

log = logging.getLogger("elmgrove.device")

#: Where the member's notes keep how far the source was read.
SOURCE = "source"
#: Seconds that a device at the end of its rows waits for its last sync.
PATIENCE = 30.0


class Work:
    """What an agent does with its rows, once it has a member."""

    def __init__(
        self, settings: Settings, member: Member, source: Source, exchange: Exchange | None
    ) -> None:
        self.member = member
        self._settings = settings
        self._source = source
        self._bookmark: Bookmark | None = member.notes.get(SOURCE)
        self._rows = self._saved_rows = 0
        self._news = False
        self._saved_at = time.monotonic()
        self._verdicts = (
            Verdicts(settings.verdicts, cast(Only, settings.only)) if settings.verdicts else None
        )
        self._alarms = Alarms(settings.webhook or None, settings.command or None)
        self._listener = Listener(settings.listen, settings.peer_token) if settings.listen else None
        partner = self._partner(exchange)
        self._courier = (
            None if partner is None else Courier(partner, settings.sync_seconds, settings.sync_rows)
        )
        self._tell()

    def process(self, reading: Reading) -> None:
        """Scores, decides, learns, and tells. ``BadInput`` for a row that can't be used."""
        detector = self.member.detector
        verdict = detector.observe(reading.row)
        self._rows += 1
        self._bookmark = reading.bookmark
        wanted = self._verdicts is not None and self._verdicts.wants(verdict)
        if wanted or verdict.alarm:
            causes = detector.blame(reading.row) if verdict.anomalous else []
            said = {"device": self.member.name, **message(reading.where, verdict, causes)}
            if self._verdicts is not None and wanted:
                self._verdicts.write(said)
            if verdict.alarm:
                self._alarms.raise_(said)

    def step(self) -> None:
        """Saves and syncs if it is time; quick otherwise. Called between rows and while idle."""
        if self._courier is not None and self._courier.step(self._rows):
            self._news = True
            self._tell()
        new = self._rows - self._saved_rows
        late = time.monotonic() - self._saved_at >= self._settings.save_seconds
        if new >= self._settings.save_rows or (late and (new or self._news)):
            self.save(self.member)

    def save(self, member: Member) -> None:
        """Puts what was learned and the place in the source on disk, as one."""
        if self._bookmark is not None:
            member.notes[SOURCE] = self._bookmark
        save(self._settings.path, member)
        self._saved_rows, self._saved_at = self._rows, time.monotonic()
        self._news = False
        self._tell()
        if self._bookmark is not None:
            self._source.saved(self._bookmark)

    def end(self, *, sync: bool) -> None:
        """Saves, after a last sync where the rows ended by themselves."""
        if sync and self._courier is not None:
            self._courier.finish(PATIENCE)
        self.save(self.member)
        log.info("%d rows, %d learned in all", self._rows, self.member.detector.learned)

    def close(self) -> None:
        """Lets go of files, threads and connections."""
        if self._courier is not None:
            self._courier.close()
        if self._listener is not None:
            self._listener.close()
        if self._verdicts is not None:
            self._verdicts.close()
        self._alarms.close(PATIENCE)

    def _tell(self) -> None:
        if self._listener is not None:
            self._listener.tell(self.member)

    def _partner(self, exchange: Exchange | None) -> Partner | None:
        settings, member = self._settings, self.member
        if exchange is not None:
            return Session(
                member,
                exchange,
                rule=settings.rule,
                budget=settings.budget,
                guarded=settings.guard,
                save=self.save,
            )
        if not settings.peers and self._listener is None:
            return None
        return PeerSession(
            member,
            settings.peers,
            token=settings.peer_token or None,
            rule=settings.rule,
            budget=settings.budget,
            guarded=settings.guard,
            save=self.save,
        )


def require_width(source: Source, member: Member) -> None:
    """Raises ``BadInput`` if the rows can't be those that the member learned."""
    wanted = member.detector.basis.layer.inputs
    if source.width not in (None, wanted):
        raise BadInput(f"the rows have {source.width} columns, where {wanted} are learned")
