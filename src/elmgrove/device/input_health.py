"""The health of an agent's surroundings: rows that can't be used, and outages that it survives."""

import logging
import time
from collections import deque
from typing import Any

from elmgrove.errors import BadInput
from elmgrove.reading.formats import STANDARD_INPUT
from elmgrove.reading.times import Gap

log = logging.getLogger("elmgrove.device")

#: The last rows that are judged, and how many there must be at least.
WINDOW, LEAST = 200, 20
#: Seconds after a gap was told in which others are only counted.
QUIET = 60.0
#: Bad rows that are logged one by one; the rest are only counted.
LOGGED = 10


class InputHealth:
    """Counts the rows that could be used, and says it when of the last ones most could not.

    Gaps in time are told as well. A whole file that was refused weighs as much as ``LEAST`` rows.
    """

    def __init__(self) -> None:
        self.used = self.left_out = 0
        #: Why the last row that was left out was.
        self.reason = ""
        #: How many missing values were filled with the last ones, and gaps in time there were.
        self.held = self.gaps = 0
        self._gaps_told, self._gap_told_at = 0, -QUIET
        self._backwards_told = False
        self._last: deque[bool] = deque(maxlen=WINDOW)
        self._heard = 0
        self._reported_at: float | None = None
        self._reported = False

    @property
    def unreadable(self) -> bool:
        return len(self._last) >= LEAST and 2 * self._heard < len(self._last)

    @property
    def fields(self) -> dict[str, Any]:
        """What a status shows: since the start, rows used and left out, why, and if it is deaf."""
        counts = {"used": self.used, "left_out": self.left_out}
        some = {name: getattr(self, name) for name in ("held", "gaps") if getattr(self, name)}
        return (
            counts
            | some
            | ({"reason": self.reason, "unreadable": self.unreadable} if self.reason else {})
        )

    def use(self) -> None:
        self.used += 1
        self._remember(True)
        if self._reported and not self.unreadable:
            self._reported = False
            log.info("rows can be used again: %d of the last %d", self._heard, len(self._last))

    def leave_out(self, where: str, reason: str, *, whole: bool = False) -> None:
        """Counts a row, or a ``whole`` file, that could not be used; tells the first ones."""
        self.left_out += 1
        self.reason = reason
        if whole or self.left_out <= LOGGED:
            log.warning("%s is left out: %s", where, reason)
        for _ in range(LEAST if whole else 1):
            self._remember(False)
        if self.unreadable:
            now, used = time.monotonic(), self._heard or "none"
            # Once an hour.
            if self._reported_at is None or now - self._reported_at >= 3600.0:
                last = f"{used} of the last {len(self._last)} rows could be used"
                log.error("%s; the last: %s", last, reason)
                self._reported_at, self._reported = now, True

    def notice(self, gap: Gap) -> None:
        """Counts a gap in time, and tells it; of many within a minute, the first."""
        self.gaps += 1
        if gap.backwards and not self._backwards_told:
            self._backwards_told = True
            log.error(
                "times run backwards in many of the last rows: sort them by time, oldest first, or "
                "name the column with their time (--time)"
            )
        now = time.monotonic()
        if now - self._gap_told_at >= QUIET:
            unsaid = self.gaps - self._gaps_told - 1
            log.warning("gap: %s%s", gap, f", and {unsaid} before it" if unsaid else "")
            self._gaps_told, self._gap_told_at = self.gaps, now

    def end(self) -> None:
        if self.gaps > self._gaps_told:
            log.warning("%d gaps in time, all together", self.gaps)
        if self.held:
            log.info("%d missing values were filled with the last ones", self.held)
        if self.left_out:
            log.warning("%d bad rows were left out", self.left_out)

    def require_heard(self, source: str, *, resumed: bool) -> None:
        """Raises ``BadInput`` if less than half of all rows could be used, or there was none.

        Where reading was ``resumed`` behind rows of before, it may be that no more came.
        """
        rows = self.used + self.left_out
        if not rows and not resumed:
            raise BadInput(f"no rows in {'standard input' if source == STANDARD_INPUT else source}")
        if 2 * self.used < rows:
            raise BadInput(
                f"{self.used or 'none'} of {rows} rows could be used; the last: {self.reason}"
            )

    def _remember(self, used: bool) -> None:
        if len(self._last) == WINDOW:
            self._heard -= self._last[0]
        self._last.append(used)
        self._heard += used


class Outage:
    """Something outside that fails, and may work later: a full disk, a share that is away.

    The log says ``what`` is wrong with which thing (``where``), and what the agent does
    ``meanwhile``: once, as long as the reason is the same. When it is over, it says ``again``.
    """

    def __init__(self, where: str, what: str, meanwhile: str, again: str) -> None:
        self._where, self._what, self._meanwhile, self._again = where, what, meanwhile, again
        self._reason: str | None = None

    @property
    def lasts(self) -> bool:
        return self._reason is not None

    def begin(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        if reason != self._reason:
            log.warning("%s %s: %s; %s", self._where, self._what, reason, self._meanwhile)
        self._reason = reason

    def end(self, more: str = "") -> None:
        if self._reason is not None:
            log.warning("%s %s%s", self._where, self._again, more)
        self._reason = None
