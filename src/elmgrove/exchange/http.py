"""The exchange server, as a device sees it."""

import json
import logging
import secrets
import time
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from elmgrove.errors import BadInput, ElmgroveError, Refused, Unauthorized, Unreachable
from elmgrove.exchange.base import TLS, Tls
from elmgrove.exchange.http_client import (
    SECONDS,
    SHORT,
    Response,
    client,
    is_secret,
    request,
)
from elmgrove.federation.charter import Charter, address_of, require_address
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import Contribution, Entry, entry_from_bytes, unbundle
from elmgrove.federation.merged import Merged
from elmgrove.federation.messages import MOST_RESULTS, Stored
from elmgrove.federation.others import content_limit, others_limit, require_makeable
from elmgrove.federation.report import Report
from elmgrove.federation.selection import EVERYONE, Rule
from elmgrove.federation.terms import DAY
from elmgrove.storage.disk import write

log = logging.getLogger("elmgrove.exchange")
# What stands before a key as long as it is not known whether the device has joined by it.
_JOINING = "joining "


class HttpExchange:
    """Speaks with ``elmgrove serve``; ``url`` ends in the federation's name.

    A device has a key of its own. The first time it makes one, keeps it in ``keyfile``, and joins
    by it with the federation's ``token``; a key that will expire is changed in time. Nothing is
    sent before it is needed. An answer is believed if it is what was asked for, no longer than the
    charter explains, and complete within ``timeout`` seconds.
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
        server, federation = require_federation(url)
        root = f"/v1/federations/{federation}"
        self._open = partial(client, server, tls=tls, timeout=timeout, root=root)
        require_address(device)
        self._device = device
        self._key = key
        self._token = token
        self._keyfile = keyfile
        # The key by which the device joins, once it is kept.
        self._made: str | None = None
        self._opened: httpx.Client | None = None
        self._charter: Charter | None = None
        # Whether the server was told that a command is none, and when a key may be changed again.
        self._told_unclear, self._change_key_from = False, 0.0

    @property
    def charter(self) -> Charter:
        """The federation's charter, asked for once."""
        if self._charter is None:
            answer = self._request("GET", "")
            with answer.reading():
                found = Charter.from_fields(answer.read(dict[str, Any]))
                require_makeable(found)
            self._charter = found
        return self._charter

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one; see ``Exchange``."""
        where = f"/contributions/{address_of(entry.origin)}"
        if not isinstance(entry, Contribution):
            self._request("DELETE", where, params={"epoch": entry.epoch}, most=SHORT)
            return
        answer = self._request("PUT", where, content=entry.to_bytes(), most=SHORT)
        told = answer.read(Stored)
        if (told.origin, told.epoch) != (entry.origin, entry.epoch) or not told.revision:
            raise answer.unlike("it did not store what was sent")

    def others(
        self, device: str, rule: Rule = EVERYONE, known: Merged | None = None
    ) -> Merged | None:
        """Asks what others know and lend; what is unchanged costs a few hundred bytes."""
        asked = {"without": device, "merge": str(rule)}
        return self._unless_known("/others", known, asked, others_limit(self.charter))

    def merged(
        self,
        device: str,
        rule: Rule = EVERYONE,
        known: Merged | None = None,
        *,
        patterns: bool = False,
    ) -> Merged | None:
        """Asks for the sum over others; an unchanged one costs a few hundred bytes."""
        asked = {"without": device, "merge": str(rule)} | ({"patterns": "true"} if patterns else {})
        return self._unless_known("/merged", known, asked, content_limit(self.charter))

    def _unless_known(
        self, path: str, known: Merged | None, asked: dict[str, str], most: int
    ) -> Merged | None:
        self._renew_key()
        tag = {} if known is None else {"If-None-Match": f'"{known.revision}"'}
        expected = [200] if known is None else [200, 304]
        answer = self._request("GET", path, headers=tag, params=asked, most=most, expected=expected)
        if answer.status == 304:
            return None
        with answer.reading():
            found = Merged.from_bytes(answer.content)
        if found.rule != asked["merge"]:
            raise answer.unlike(f"it answered for {found.rule!r:.80}")
        return found

    def report(self, report: Report) -> tuple[Command, ...]:
        """Tells the server how a device is doing; gives what its administrators ask of it.

        As many commands as one report tells the outcomes of.
        """
        answer = self._request(
            "PUT",
            f"/reports/{address_of(report.device)}",
            content=_written(report.fields),
            headers={"Content-Type": "application/json"},
            # As many as a server keeps for one device.
            most=1 << 18,
        )
        found = (self._command(stated) for stated in answer.read(list[dict[str, Any]], "commands"))
        return tuple(islice((one for one in found if one is not None), MOST_RESULTS))

    def _command(self, stated: dict[str, Any]) -> Command | None:
        """What is asked of the device; None for what a newer server, or somebody else, may ask."""
        try:
            return Command.from_fields(stated)
        except BadInput as error:
            level = logging.DEBUG if self._told_unclear else logging.WARNING
            log.log(level, "a command that this device can't do: %s", error)
            self._told_unclear = True
            return None

    def entries(self) -> list[Entry]:
        """Fetches what all devices contributed, for administrators."""
        answer = self._request("GET", "/contributions", most=1 << 30)
        with answer.reading():
            return [entry_from_bytes(blob) for blob in unbundle(answer.content)]

    def close(self) -> None:
        """Closes the connection, if there is one, and lets go of the charter."""
        self._charter = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, method: str, path: str, **options: Any) -> Response:
        if self._opened is None:
            self._opened = self._open(self._known_key() or self._enrolled())
        return request(self._opened, method, path, **options)

    # The device's key

    def _renew_key(self) -> None:
        """Changes a key that is old for a new one; where that can't be done, it will do for now.

        It is old when two thirds of the time are over for which keys of the federation last. Its
        age is that of its file.
        """
        lasts, file = self.charter.terms.key_days, self._keyfile
        if lasts is None or file is None or not file.exists():
            return
        is_old = time.time() - file.stat().st_mtime > lasts * DAY * 2 / 3
        if is_old and time.monotonic() >= self._change_key_from:
            # Once an hour while it fails: the server records each offer of a key.
            self._change_key_from = time.monotonic() + 3600.0
            try:
                self._change_key(file)
            except (ElmgroveError, OSError) as error:
                log.warning("the key of this device could not be changed: %s", error)
            else:
                log.info("this device has a new key; the old one is worthless")

    def _change_key(self, file: Path) -> None:
        answer = self._request("POST", f"/devices/{address_of(self._device)}/key", most=SHORT)
        key: str = answer.read(str, "key")
        if answer.read(str, "name") != self._device or not is_secret(key):
            raise answer.unlike("it gave no new key")
        # Before it is used: whatever happens, the file holds a key that is valid.
        write(file, key.encode(), private=True)
        if self._opened is not None:
            self._opened.close()
        self._key, self._opened = key, None

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
            made = f"elm-key-{secrets.token_urlsafe(32)}"
            self._keep_key(_JOINING + made)
            self._made = made
        asked = {"name": self._device, "key": self._made}
        try:
            with self._open(self._token) as opened:
                answer = request(
                    opened, "POST", "/devices", json=asked, expected=(201,), most=SHORT
                )
        except (Refused, Unauthorized):
            # Asked before without an answer, the device may have joined by that key.
            if is_first:
                self._made = None
                if self._keyfile is not None:
                    self._keyfile.unlink(missing_ok=True)
            raise
        if answer.read(str, "key") != self._made:
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


def require_federation(url: str) -> tuple[str, str]:
    """Gives the URL of the server and the federation's name that a URL is made of.

    Raises ``BadInput`` unless it ends in a name. Before that it may have a prefix of paths, under
    which a proxy shows the server.
    """
    parts = urlsplit(url)
    path, _, name = parts.path.rstrip("/").rpartition("/")
    # Addresses of the dashboard and of the interface are taken for that of a federation.
    if parts.netloc and (not name or path.endswith(("/ui", "/v1/federations"))):
        like = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/NAME"
        raise BadInput(
            f"{url}: no federation is named; its URL is {like}, as 'elmgrove federation create' "
            "said"
        )
    return parts._replace(path=path, query="", fragment="").geturl(), name


def _written(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
