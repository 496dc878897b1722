"""The exchange server, as a device sees it."""

import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx

from elmgrove.errors import BadInput
from elmgrove.exchange.asking import SECONDS, client, is_secret, request
from elmgrove.exchange.base import TLS, Listing, Tls, Unauthorized, Unreachable
from elmgrove.exchange.responses import Response
from elmgrove.federation import (
    MOST_BYTES,
    Charter,
    Contribution,
    Cost,
    Entry,
    Merged,
    Refused,
    address_of,
    content_limit,
    entry_from_bytes,
    others_limit,
    require_address,
    require_origin,
    unbundle,
)
from elmgrove.storage import write

# What stands before a key as long as it is not known whether the device has joined by it.
_JOINING = "joining "
_KEY = "elm-key-"
#: Entries fetched with one request; more would make the URL too long.
AT_ONCE = 20
_OK, _CREATED, _NOT_MODIFIED = 200, 201, 304
# The bytes of an answer that says what was done, or why it was not.
_SHORT = 1 << 16
# The most bytes of a layer that a device would make for an exchange: 5,000 units at 5,000 inputs.
_LARGEST = 200_000_000


class HttpExchange:
    """Speaks with ``elmgrove serve``; ``url`` ends in the federation's name.

    A device has a key of its own. The first time it makes one, keeps it in ``keyfile``, and joins
    by it with the federation's ``token``. Nothing is sent before it is needed. An answer is
    believed if it is what was asked for, no longer than the charter explains, and complete within
    ``timeout`` seconds.
    """

    #: A server keeps groups ready.
    standing = True

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
        self._charter: Charter | None = None
        # What the last listing said.
        self._sizes = dict[str, int]()
        # Until something was fetched: a slow line.
        self._bytes_a_second = 1e6

    @property
    def charter(self) -> Charter:
        """The federation's charter, asked for once."""
        if self._charter is None:
            answer = self._request("GET", "")
            with answer.reading():
                found = Charter.from_fields(dict(answer.json()))
                _require_makeable(found)
            self._charter = found
        return self._charter

    def forget_charter(self) -> None:
        """Lets the charter be asked for again."""
        self._charter = None

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one; see ``Exchange``."""
        where = f"/contributions/{address_of(entry.origin)}"
        if not isinstance(entry, Contribution):
            self._request("DELETE", where, params={"epoch": entry.epoch}, most=_SHORT)
            return
        answer = self._request("PUT", where, content=entry.to_bytes(), most=_SHORT)
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
            cost = Cost(size / self._bytes_a_second, size)
            found.append(Listing(origin, item.whole("epoch"), item.flag("left"), cost))
        self._sizes = {listing.origin: int(listing.cost.bytes) for listing in found}
        return found

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """Fetches the entries of these devices that are there, some at a time."""
        entries, one = list[Entry](), content_limit(self.charter)
        for names in self._together(sorted(origins)):
            most = min(one * len(names), max(one, MOST_BYTES))
            began = time.monotonic()
            answer = self._request("GET", "/contributions", params={"origin": names}, most=most)
            seconds = max(time.monotonic() - began, 1e-6)
            self._bytes_a_second = max(len(answer.content), 1) / seconds
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

    def groups(self, distance: str) -> dict[str, Any]:
        """Asks for the groups that the server keeps by this distance."""
        return self._request("GET", "/groups", params={"distance": distance}).json()

    def rotate_key(self) -> bool:
        """Changes this device's key for a new one that the server gives; see ``Exchange``."""
        if self._keyfile is None:
            raise BadInput(f"{self._device!r} has no file in which a new key could be kept")
        answer = self._request("POST", f"/devices/{address_of(self._device)}/key", most=_SHORT)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, method: str, path: str, **options: Any) -> Response:
        if self._opened is None:
            self._opened = self._open(self._known_key() or self._enrolled())
        return request(self._opened, method, path, **options)

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
                    opened, "POST", "/devices", json=asked, expected=(_CREATED,), most=_SHORT
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


def _require_makeable(charter: Charter) -> None:
    """Raises ``BadInput`` for a layer that would take all of a device's memory."""
    basis = charter.basis
    size = max(content_limit(charter, 1), 8 * basis.inputs * basis.layer.units)
    if size > _LARGEST:
        raise BadInput(f"its layer would have {size:,} bytes, more than {_LARGEST:,}")
