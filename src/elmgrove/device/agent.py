"""The agent: rows in, verdicts and alarms out, in step with others, and never at a loss."""

import logging

from threadpoolctl import threadpool_limits

from elmgrove.device.beginning import (
    member_for_rows,
    member_from_federation,
    member_from_state,
    member_like,
)
from elmgrove.device.settings import Settings
from elmgrove.device.sources import Bad, Item, Reading, Source, open_source
from elmgrove.device.verdicts import NobodyReads
from elmgrove.device.work import SOURCE, Work, require_width
from elmgrove.errors import BadInput
from elmgrove.exchange import Exchange
from elmgrove.exchange.session import keyfile, open_exchange
from elmgrove.federation import Member
from elmgrove.storage.disk import locked

log = logging.getLogger("elmgrove.device")

#: Bad rows that are logged one by one; the rest are only counted.
TOLD = 10


class Agent:
    """One device at work, until its rows end or ``stop`` is called (from a signal handler, too).

    What was learned is saved every so many rows together with the place in the source: after a
    crash the agent goes on right there. From standard input, which can't be read again, the rows
    since the last save are lost.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopped = False
        self._bad = 0
        self._work: Work | None = None
        self._first: list[Reading] = []

    def stop(self) -> None:
        """Lets the agent end after the row it is at."""
        self._stopped = True

    def run(self) -> None:
        """Works until the rows end or it is stopped; saved in both cases."""
        # On a small machine a second thread costs more than it brings.
        with locked(self._settings.path), threadpool_limits(1, "blas"):
            member = member_from_state(self._settings)
            exchange = self._exchange(self._settings.own_name if member is None else member.name)
            member = member or self._new_member(exchange)
            source = self._source(member)
            try:
                if member is not None:
                    self._work = Work(self._settings, member, source, exchange)
                for item in source:
                    if self._stopped:
                        break
                    self._handle(item, source, exchange)
                else:
                    self._begin(source, exchange)
                self._end()
            except NobodyReads:
                self._stopped = True
                self._end()
                raise
            finally:
                if self._work is not None:
                    self._work.close()
                elif exchange is not None:
                    exchange.close()

    def _end(self) -> None:
        if self._work is not None:
            self._work.end(sync=not self._stopped)
        elif self._first:
            log.warning("%d rows are too few to begin with and were not kept", len(self._first))
        if self._bad:
            log.warning("%d bad rows were left out", self._bad)

    def _handle(self, item: Item, source: Source, exchange: Exchange | None) -> None:
        if isinstance(item, Bad):
            self._refuse(item.where, item.reason)
        elif item is not None and self._work is None:
            self._first.append(item)
            if len(self._first) >= self._settings.start_rows:
                self._begin(source, exchange)
        elif item is not None:
            self._process(item, source)
        if self._work is not None:
            self._work.step()

    def _process(self, reading: Reading, source: Source) -> None:
        assert self._work is not None
        require_width(source, self._work.member)
        try:
            self._work.process(reading)
        except BadInput as error:
            self._refuse(reading.where, str(error))

    def _begin(self, source: Source, exchange: Exchange | None) -> None:
        """Starts with the first rows, where nothing else says how."""
        rows, self._first = self._first, []
        if self._work is None and rows:
            member = member_for_rows(self._settings, [one.row for one in rows], source.names)
            self._work = Work(self._settings, member, source, exchange)
            for reading in rows:
                self._process(reading, source)

    def _refuse(self, where: str, reason: str) -> None:
        self._bad += 1
        if self._bad <= TOLD:
            log.warning("%s is left out: %s", where, reason)

    def _exchange(self, name: str) -> Exchange | None:
        settings = self._settings
        if not settings.exchange:
            return None
        return open_exchange(
            settings.exchange,
            name,
            token=settings.token or None,
            keyfile=keyfile(settings.path),
            ca=settings.ca or None,
        )

    def _new_member(self, exchange: Exchange | None) -> Member | None:
        """A member that has learned nothing; None where the first rows must decide."""
        if exchange is not None:
            return member_from_federation(self._settings, exchange, lambda: self._stopped)
        return member_like(self._settings) if self._settings.like else None

    def _source(self, member: Member | None) -> Source:
        settings = self._settings
        return open_source(
            settings.source,
            follow=settings.follow,
            pattern=settings.pattern,
            features=None if member is None else member.detector.basis.features,
            drop=settings.drop,
            bookmark=None if member is None else member.notes.get(SOURCE),
        )
