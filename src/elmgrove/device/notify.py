"""Recipients of alarms: a web address and a command, which get messages in the background."""

import html
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from email.header import Header
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from elmgrove.detector.drift import CHANGE, SLOW
from elmgrove.detector.events import ENDED, OPENED, WORSENED
from elmgrove.device.output import Observation
from elmgrove.device.settings import Settings
from elmgrove.errors import BadInput, Unreachable
from elmgrove.exchange.backoff import Backoff

log = logging.getLogger("elmgrove.device")

#: Alarms that wait for a recipient; of more, the oldest are dropped.
CAPACITY = 100
#: Seconds that each attempt to post may take, and all of them.
POST_SECONDS, TELL_SECONDS = 10.0, 30.0
#: Seconds that a command may take.
COMMAND_SECONDS = 30.0

Message = dict[str, Any]
#: Called with the seconds between two attempts; returns early when there is no time left.
Wait = Callable[[float], Any]


class Alarms:
    """Passes alarms on to a web address, a command or both, in the background and in order.

    While a recipient can't be reached the newest alarms wait in memory: a restart loses them, the
    file of verdicts does not.
    """

    def __init__(self, settings: Settings) -> None:
        # All are looked at before a thread starts, so that a refusal leaves none behind.
        tells: list[Callable[[Message, Wait], None]] = []
        if settings.webhook:
            tells.append(Webhook(settings.webhook, settings.webhook_format).tell)
        if settings.command:
            tells.append(Command(settings.command).tell)
        self._queues = [AlarmQueue(tell) for tell in tells]

    def observe(self, seen: Observation) -> None:
        for one in seen.news:
            self.send(one)

    def send(self, message: Message) -> None:
        for queue in self._queues:
            queue.take(message)

    def close(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        for queue in self._queues:
            queue.hurry()
        for queue in self._queues:
            queue.finish(max(0.0, end - time.monotonic()))


class AlarmQueue:
    """Hands messages to ``tell`` one by one, in a thread that ends with the program."""

    def __init__(self, tell: Callable[[Message, Wait], None]) -> None:
        self._tell = tell
        self._waiting: deque[Message] = deque()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="elmgrove-alarms", daemon=True)
        self._thread.start()

    def take(self, message: Message) -> None:
        with self._changed:
            full = len(self._waiting) == CAPACITY
            if full:
                self._waiting.popleft()
            self._waiting.append(message)
            self._changed.notify()
        if full:
            log.warning("alarms come faster than they are delivered: dropped the oldest")

    def hurry(self) -> None:
        with self._changed:
            self._hurry.set()
            self._changed.notify()

    def finish(self, timeout: float) -> None:
        self._thread.join(timeout)
        if self._thread.is_alive():
            log.warning("gave up on %d undelivered alarms", len(self._waiting) + 1)

    def _run(self) -> None:
        while (message := self._next()) is not None:
            try:
                self._tell(message, self._hurry.wait)
            except Exception:  # whatever it was, the next alarm must still be delivered
                log.exception("an alarm could not be delivered")

    def _next(self) -> Message | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._hurry.is_set())
            return self._waiting.popleft() if self._waiting else None


# How loud ntfy is about each kind of news, and the picture that it shows.
_LOUDNESS = {
    OPENED: ("high", "warning"),
    WORSENED: ("high", "warning"),
    ENDED: ("low", "white_check_mark"),
    CHANGE: ("default", "question"),
    SLOW: ("default", "question"),
}


def post_of(message: Message, form: str) -> tuple[str, dict[str, str]]:
    """Writes an alarm as its recipient takes it: ``json`` (as it is), ``slack`` or ``ntfy``.

    Gives the body and its headers.
    """
    if form == "json":
        return json.dumps(message), {"Content-Type": "application/json"}
    device, text = message["device"], message["text"]
    if form == "slack":
        # Slack takes these three characters for its own (a name might call everybody).
        said = html.escape(f"{device}: {text}", quote=False)
        return json.dumps({"text": said}), {"Content-Type": "application/json"}
    priority, tag = _LOUDNESS[message["kind"]]
    event = f"event {message['number']} " if "number" in message else ""
    title = f"{device}: {event}{message['kind']}"
    if not title.isascii():
        # Headers of HTTP know no other letters (RFC 2047).
        title = Header(title, "utf-8", maxlinelen=10**6).encode()
    headers = {"Title": title, "Priority": priority, "Tags": tag}
    return text, {"Content-Type": "text/plain; charset=utf-8", **headers}


class Webhook:
    """A web address that takes a POST.

    A server's failure or a lost connection is tried again, for half a minute at most; a refusal
    (4xx) is not, and redirects are not followed. Logs name the host alone: the rest is often a
    secret.
    """

    def __init__(self, url: str, form: str = "json") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput("the webhook must be an address that starts with http:// or https://")
        self._url, self._host, self._format = url, parts.hostname, form

    def tell(self, message: Message, wait: Wait) -> None:
        backoff, until = Backoff(), time.monotonic() + TELL_SECONDS
        trouble, tries = self._outage(message), 1
        while trouble is not None and tries < 5 and (left := until - time.monotonic()) > 0:
            wait(min(backoff.failed(trouble.retry_after), left))
            trouble, tries = self._outage(message), tries + 1
        if trouble is not None:
            log.warning("alarm not delivered to %s: %s", self._host, trouble)

    def _outage(self, message: Message) -> Unreachable | None:
        # Here, since loading httpx takes time that most devices need not spend.
        from elmgrove.exchange.http import post

        body, headers = post_of(message, self._format)
        try:
            status = post(self._url, body.encode(), headers, POST_SECONDS)
        except Unreachable as trouble:
            return trouble
        if not 200 <= status < 300:
            log.warning("alarm refused by %s: it answered %d", self._host, status)
        return None


class Command:
    """A program that is run for each alarm, without a shell, with a line of JSON as its input.

    What it prints is dropped, since standard output may be where verdicts go. A failure is logged
    with the program's complaint, and not tried again. A program that takes too long is stopped.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise BadInput(f"the alarm command {command!r}: {error}") from error
        if not self._words or shutil.which(self._words[0]) is None:
            raise BadInput(f"the alarm command {command!r}: there is no such program here")

    def tell(self, message: Message, wait: Wait) -> None:
        with _somewhere() as complaint:
            line = json.dumps(message, ensure_ascii=False) + "\n"
            failure = self._failure(line.encode(errors="backslashreplace"), complaint)
            complaint.seek(0)
            said = complaint.read(1000).decode(errors="replace").strip()
        if failure is not None:
            log.warning("alarm command %s: %s. %s", self._words[0], failure, said)

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
                process.communicate(text, timeout=COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"stopped after {COMMAND_SECONDS:g} s"
        return f"exit code {process.returncode}" if process.returncode else None


def _somewhere() -> IO[bytes]:
    """Opens a place for what a command complains about; nowhere, if no disk takes anything.

    Not a pipe: a grandchild that holds it open would hold up the next alarm.
    """
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return Path(os.devnull).open("r+b")
