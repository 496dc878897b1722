"""Alarms for a web address."""

import logging
from urllib.parse import urlsplit

import httpx

from elmgrove.device.alarms.courier import Message, Wait
from elmgrove.device.backoff import Backoff
from elmgrove.errors import BadInput

logger = logging.getLogger("elmgrove.device")
ATTEMPTS = 5
SECONDS = 10.0


class Webhook:
    """A web address that takes a POST of JSON. Redirects are not followed.

    Messages name its host alone: the rest of such an address is often a secret.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadInput("the webhook must be an address that starts with http:// or https://")
        self._url, self._host = url, parts.hostname

    def tell(self, message: Message, wait: Wait) -> None:
        """Posts the alarm, again after a wait while that may help."""
        backoff, trouble = Backoff(), self._trouble(message)
        for _ in range(ATTEMPTS - 1):
            if trouble is None:
                return
            wait(backoff.failed())
            trouble = self._trouble(message)
        if trouble is not None:
            logger.warning("alarm not delivered to %s: %s", self._host, trouble)

    def _trouble(self, message: Message) -> str | None:
        """Why to try again; None when the server has spoken for good."""
        try:
            answer = httpx.post(self._url, json=message, timeout=SECONDS)
        except httpx.TransportError as error:
            return f"{type(error).__name__} {error}"
        if answer.status_code >= 500:
            return f"it answered {answer.status_code}"
        if not answer.is_success:
            logger.warning("alarm refused by %s: it answered %d", self._host, answer.status_code)
        return None
