"""The exchange server, as a device sees it."""

import json
import logging
import secrets
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from elmgrove.errors import BadInput, Refused, Unauthorized, Unreachable
from elmgrove.exchange.base import TLS, Listing, Tls
from elmgrove.exchange.http_client import SECONDS, SHORT, client, is_secret, request
from elmgrove.exchange.responses import Fields, Response
from elmgrove.federation.charter import Charter, address_of, require_address
from elmgrove.federation.commands import Command
from elmgrove.federation.contribution import (
    Contribution,
    Entry,
    entry_from_bytes,
    require_origin,
    unbundle,
)
from elmgrove.federation.merged import Merged
from elmgrove.federation.others import MOST_BYTES, content_limit, others_limit, require_makeable
from elmgrove.federation.report import MOST_RESULTS, Report
from elmgrove.storage.disk import write

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


log = logging.getLogger("elmgrove.exchange")
#: Entries fetched with one request; more would make the URL too long.
AT_ONCE = 20
_OK, _NOT_MODIFIED = 200, 304
_NOT_FOUND, _NOT_ALLOWED = 404, 405
# The bytes of an answer with commands: as many as a server keeps for one device.
_MOST_COMMANDS = 1 << 18


class HttpExchange:
    """Speaks with ``elmgrove serve``; ``url`` ends in the federation's name.

    A device joins by a key of its own (``HttpDevice``). Nothing is sent before it is needed. An
    answer is believed if it is what was asked for, no longer than the charter explains, and
    complete within ``timeout`` seconds.
    """

    #: A server keeps groups ready, and has a dashboard.
    standing = somebody_looks = True

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
        how: dict[str, Any] = {"key": key, "token": token, "keyfile": keyfile}
        self._joined = HttpDevice(url, device, **how, tls=tls, timeout=timeout)
        self._charter: Charter | None = None
        # What the last listing said.
        self._sizes = dict[str, int]()
        # Whether the server takes reports, and whether it was told that a command is none.
        self._looks, self._told_unclear = True, False

    @property
    def charter(self) -> Charter:
        """The federation's charter, asked for once."""
        if self._charter is None:
            answer = self._request("GET", "")
            with answer.reading():
                found = Charter.from_fields(dict(answer.json()))
                require_makeable(found)
            self._charter = found
        return self._charter

    def forget_charter(self) -> None:
        """Lets the charter be asked for again."""
        self._charter = None

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one; see ``Exchange``."""
        where = f"/contributions/{address_of(entry.origin)}"
        if not isinstance(entry, Contribution):
            self._request("DELETE", where, params={"epoch": entry.epoch}, most=SHORT)
            return
        answer = self._request("PUT", where, content=entry.to_bytes(), most=SHORT)
        told = answer.json()
        stored = (told.text("origin"), told.whole("epoch"))
        if stored != (entry.origin, entry.epoch) or not told.whole("revision"):
            raise answer.unlike("it did not store what was sent")

    def listings(self) -> list[Listing]:
        """Lists what the server holds of every device."""
        answer, found = self._request("GET", "/entries"), list[Listing]()
        most = content_limit(self.charter)
        for item in answer.json().each("entries"):
            origin, size = item.text("origin"), item.whole("size", most)
            with answer.reading():
                require_origin(origin)
            found.append(Listing(origin, item.whole("epoch"), item.flag("left"), size))
        self._sizes = {listing.origin: listing.size for listing in found}
        return found

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """Fetches the entries of these devices that are there, some at a time."""
        entries, one = list[Entry](), content_limit(self.charter)
        for names in self._together(sorted(origins)):
            most = min(one * len(names), max(one, MOST_BYTES))
            answer = self._request("GET", "/contributions", params={"origin": names}, most=most)
            with answer.reading():
                found = [entry_from_bytes(blob) for blob in unbundle(answer.content)]
            if not {entry.origin for entry in found} <= set(names):
                raise answer.unlike("it sent what was not asked for")
            entries += found
        return entries

    def _together(self, names: list[str]) -> Iterator[list[str]]:
        """Names what to fetch with one request, which leaves room for each to have grown since."""
        batch, size = list[str](), 0
        for name in names:
            more = self._sizes.get(name, 0)
            if batch and (len(batch) == AT_ONCE or size + more > MOST_BYTES // 2):
                yield batch
                batch, size = [], 0
            batch.append(name)
            size += more
        if batch:
            yield batch

    def merged(
        self, without: str, known: Merged | None, grouped: str | None = None
    ) -> Merged | None:
        """Asks for the sum over all devices but one; an unchanged one costs a few hundred bytes."""
        asked = {"without": without} | ({} if grouped is None else {"grouped": grouped})
        found = self._unless_known("/merged", known, asked, content_limit(self.charter))
        if found is not None and found.grouped != grouped:
            # One that does not know the question answers with the sum over everybody.
            raise Refused("this server is too old to tell groups apart")
        return found

    def others(self, without: str, known: Merged | None) -> Merged | None:
        """Asks for what all others know and lend; what is unchanged costs a few hundred bytes."""
        most = others_limit(self.charter)
        return self._unless_known("/others", known, {"without": without}, most)

    def _unless_known(
        self, path: str, known: Merged | None, asked: dict[str, str], most: int
    ) -> Merged | None:
        tag = {} if known is None else {"If-None-Match": f'"{known.revision}"'}
        expected = [_OK] if known is None else [_OK, _NOT_MODIFIED]
        answer = self._request("GET", path, headers=tag, params=asked, most=most, expected=expected)
        if answer.status == _NOT_MODIFIED:
            return None
        with answer.reading():
            return Merged.from_bytes(answer.content)

    def groups(self) -> dict[str, Any]:
        """Asks for the groups that the server keeps."""
        return self._request("GET", "/groups").json()

    def report(self, report: Report) -> tuple[Command, ...]:
        """Tells the server how a device is doing; gives what its administrators ask of it.

        As many commands as one report tells the outcomes of. A server that is too old for it is
        asked no more.
        """
        if not self._looks:
            return ()
        answer = self._request(
            "PUT",
            f"/reports/{address_of(report.device)}",
            content=_written(report.fields),
            headers={"Content-Type": "application/json"},
            most=_MOST_COMMANDS,
            expected=(_OK, _NOT_FOUND, _NOT_ALLOWED),
        )
        if answer.status != _OK:
            refusal = answer.refusal()
            if not isinstance(refusal, Refused):
                raise refusal
            self._looks = False
            log.info("this server is too old to take the device's status: %s", refusal)
            return ()
        found = (self._command(stated) for stated in answer.json().each("commands"))
        return tuple(islice((one for one in found if one is not None), MOST_RESULTS))

    def _command(self, stated: Fields) -> Command | None:
        """What is asked of the device; None for what a newer server, or somebody else, may ask."""
        try:
            return Command.from_fields(dict(stated))
        except BadInput as error:
            level = logging.DEBUG if self._told_unclear else logging.WARNING
            log.log(level, "a command that this device can't do: %s", error)
            self._told_unclear = True
            return None

    def rotate_key(self) -> bool:
        """Changes this device's key for a new one that the server gives; see ``Exchange``."""
        return self._joined.rotate_key()

    def close(self) -> None:
        """Closes the connection, if there is one."""
        self._joined.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, method: str, path: str, **options: Any) -> Response:
        return self._joined.request(method, path, **options)


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
