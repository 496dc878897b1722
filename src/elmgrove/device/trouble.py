"""Troubles that an agent outlives: told when they begin, and once more when they are over."""

import logging

log = logging.getLogger("elmgrove.device")


class Trouble:
    """Something outside that fails, and may work later: a full disk, a share that is away.

    ``what`` begins each line of the log. Of attempts that fail for one reason only the first is
    told, with what the agent does ``meanwhile``.
    """

    def __init__(self, what: str, meanwhile: str) -> None:
        self._what, self._meanwhile = what, meanwhile
        self._reason: str | None = None

    def begin(self, error: Exception) -> None:
        """Takes note that it failed; warns if that is new."""
        reason = error.strerror if isinstance(error, OSError) else None
        reason = reason or str(error)
        if reason != self._reason:
            log.warning("%s: %s; %s", self._what, reason, self._meanwhile)
        self._reason = reason

    def end(self, said: str = "it works again") -> None:
        """Takes note that it went well; says so if it had failed before."""
        if self._reason is not None:
            log.warning("%s: %s", self._what, said)
        self._reason = None
