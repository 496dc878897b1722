"""A device's connection to one federation of a server: it joins the first time, by its own key."""

import secrets
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from elmgrove.errors import BadInput
from elmgrove.exchange.asking import SECONDS, SHORT, client, is_secret, request
from elmgrove.exchange.base import TLS, Tls, Unauthorized, Unreachable
from elmgrove.exchange.responses import Response
from elmgrove.federation import Refused, address_of, require_address
from elmgrove.storage import write

# What stands before a key as long as it is not known whether the device has joined by it.
_JOINING = "joining "
_KEY = "elm-key-"
_CREATED = 201


class HttpDevice:
    """Asks a federation on a server in a device's name; ``url`` ends in the federation's name.

    A device has a key of its own. The first time it makes one, keeps it in ``keyfile``, and joins
    by it with the federation's ``token``. Nothing is sent before it is needed.
    """

    def __init__(
        self,
        url: str,
        device: str,
        *,
        key: str | None = None,
        token: str | None = None,
        keyfile: Path | None = None,
        tls: Tls = TLS,
        timeout: float = SECONDS,
    ) -> None:
        self._open = partial(client, url, tls=tls, timeout=timeout)
        require_address(device)
        self._device = device
        self._key = key
        self._token = token
        self._keyfile = keyfile
        # The key by which the device joins, once it is kept.
        self._made: str | None = None
        self._opened: httpx.Client | None = None

    def request(self, method: str, path: str, **options: Any) -> Response:
        """Asks, and gives the answer; see ``asking.request``."""
        if self._opened is None:
            self._opened = self._open(self._known_key() or self._enrolled())
        return request(self._opened, method, path, **options)

    def rotate_key(self) -> bool:
        """Changes this device's key for a new one that the server gives, and keeps that."""
        if self._keyfile is None:
            raise BadInput(f"{self._device!r} has no file in which a new key could be kept")
        answer = self.request("POST", f"/devices/{address_of(self._device)}/key", most=SHORT)
        told = answer.json()
        key = told.text("key")
        if told.text("name") != self._device or not is_secret(key):
            raise answer.unlike("it gave no new key")
        # Before it is used: whatever happens, the file holds a key that is valid.
        write(self._keyfile, key.encode(), private=True)
        self.close()
        self._key, self._opened = key, None
        return True

    def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._opened is not None:
            self._opened.close()

    def _known_key(self) -> str | None:
        if self._key is None and self._keyfile is not None and self._keyfile.exists():
            text = self._keyfile.read_text(encoding="utf-8").strip()
            key = text.removeprefix(_JOINING)
            if key != text and self._token is not None:
                self._made = key
            else:
                self._key = key
        return self._key

    def _enrolled(self) -> str:
        """Joins the federation, by a key of its own that is kept before it is told.

        Whatever happens then, asking again with this key is the same as having asked once.
        """
        if self._token is None:
            raise Unauthorized(f"{self._device!r} needs the federation's token to join, or its key")
        is_first = self._made is None
        if self._made is None:
            made = _KEY + secrets.token_urlsafe(32)
            self._keep_key(_JOINING + made)
            self._made = made
        asked = {"name": self._device, "key": self._made}
        try:
            with self._open(self._token) as opened:
                answer = request(
                    opened, "POST", "/devices", json=asked, expected=(_CREATED,), most=SHORT
                )
        except (Refused, Unauthorized):
            # Asked before without an answer, the device may have joined by that key.
            if is_first:
                self._made = None
                if self._keyfile is not None:
                    self._keyfile.unlink(missing_ok=True)
            raise
        if answer.json().text("key") != self._made:
            raise answer.unlike(f"it did not take the key of {self._device!r}")
        # Where the disk is full by now, the next start asks again.
        with suppress(Unreachable):
            self._keep_key(self._made)
        self._key = self._made
        return self._key

    def _keep_key(self, key: str) -> None:
        if self._keyfile is None:
            return
        try:
            write(self._keyfile, key.encode(), private=True)
        except OSError as error:
            raise Unreachable(
                f"{self._keyfile} can't be written: {error.strerror}; without a place for its key "
                f"{self._device!r} can't join"
            ) from error
