"""Outages that an agent survives: logged when they begin, and once more when they are over."""

import logging

log = logging.getLogger("elmgrove.device")


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
        """Whether it failed the last time."""
        return self._reason is not None

    def begin(self, error: Exception) -> None:
        """Takes note that it failed; warns if that is new."""
        reason = getattr(error, "strerror", None) or str(error)
        if reason != self._reason:
            log.warning("%s %s: %s; %s", self._where, self._what, reason, self._meanwhile)
        self._reason = reason

    def end(self, more: str = "") -> None:
        """Takes note that it went well; says so if it had failed before."""
        if self._reason is not None:
            log.warning("%s %s%s", self._where, self._again, more)
        self._reason = None
