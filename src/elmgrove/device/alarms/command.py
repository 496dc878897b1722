"""Alarms for a program on this machine."""

import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from typing import IO

from elmgrove.device.alarms.courier import Message, Wait
from elmgrove.errors import BadInput

logger = logging.getLogger("elmgrove.device")
SECONDS = 30.0
_ENOUGH = 1000


class Command:
    """A program that is run for each alarm, without a shell, with JSON on its standard input.

    What it prints is dropped, since standard output may be where verdicts go. One that fails is
    logged with its complaint and not run again; one that takes too long is stopped.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise BadInput(f"the alarm command {command!r}: {error}") from error
        if not self._words or shutil.which(self._words[0]) is None:
            raise BadInput(f"the alarm command {command!r}: there is no such program here")

    def tell(self, message: Message, wait: Wait) -> None:
        """Runs it once; ``wait`` is for those who try again."""
        # Not a pipe: a grandchild that holds it open would hold up the next alarm.
        with tempfile.TemporaryFile() as complaint:
            failure = self._failure(json.dumps(message).encode(), complaint)
            complaint.seek(0)
            said = complaint.read(_ENOUGH).decode(errors="replace").strip()
        if failure is not None:
            logger.warning("alarm command %s: %s. %s", self._words[0], failure, said)

    def _failure(self, text: bytes, complaint: IO[bytes]) -> str | None:
        # In a session of its own: Ctrl-C for the agent does not stop an alarm under way.
        with subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=complaint,
            start_new_session=True,
        ) as process:
            try:
                process.communicate(text, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"stopped after {SECONDS:g} s"
        return f"exit code {process.returncode}" if process.returncode else None
