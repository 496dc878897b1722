"""The exchange server, as a device sees it."""

import ssl
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from elmgrove import __version__
from elmgrove.errors import BadInput
from elmgrove.exchange.base import TLS, Listing, Tls, Unauthorized, Unreachable
from elmgrove.federation import (
    Charter,
    Contribution,
    Cost,
    Entry,
    Merged,
    Outdated,
    Refused,
    address_of,
    entry_from_bytes,
    require_address,
    unbundle,
)
from elmgrove.storage import write

# As long as a key, and blank: who finds it in the file has none.
_NO_KEY = " " * 64
#: Entries fetched with one request; more would make the URL too long.
AT_ONCE = 20


class HttpExchange:
    """Speaks with ``elmgrove serve``; ``url`` ends in the federation's name.

    A device has a key of its own. The first time it asks for one, with the federation's
    ``token``, and keeps it in ``keyfile``. Nothing is sent before it is needed.
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
        timeout: float = 30.0,
    ) -> None:
        self._open = partial(client, url, tls=tls, timeout=timeout)
        require_address(device)
        self._device = device
        self._key = key
        self._token = token
        self._keyfile = keyfile
        # The key that joining gave, until it is kept.
        self._told: str | None = None
        self._opened: httpx.Client | None = None
        self._charter: Charter | None = None
        # Until something was fetched: a slow line.
        self._bytes_a_second = 1e6

    @property
    def charter(self) -> Charter:
        """The federation's charter, asked for once."""
        if self._charter is None:
            self._charter = Charter.from_fields(_fields(self._request("GET", "")))
        return self._charter

    def publish(self, entry: Entry) -> None:
        """Puts a device's entry in the place of its former one; see ``Exchange``."""
        where = f"/contributions/{address_of(entry.origin)}"
        if isinstance(entry, Contribution):
            self._request("PUT", where, content=entry.to_bytes())
        else:
            self._request("DELETE", where, params={"epoch": entry.epoch})

    def listings(self) -> list[Listing]:
        """Lists what the server holds of every device."""
        return [
            Listing(
                item["origin"],
                item["epoch"],
                item["left"],
                Cost(item["size"] / self._bytes_a_second, item["size"]),
            )
            for item in _fields(self._request("GET", "/entries"))["entries"]
        ]

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """Fetches the entries of these devices that are there, some at a time."""
        names, entries = sorted(origins), list[Entry]()
        for start in range(0, len(names), AT_ONCE):
            wanted = {"origin": names[start : start + AT_ONCE]}
            began = time.monotonic()
            content = self._request("GET", "/contributions", params=wanted).content
            self._bytes_a_second = max(len(content), 1) / max(time.monotonic() - began, 1e-6)
            entries += [entry_from_bytes(blob) for blob in unbundle(content)]
        return entries

    def merged(
        self, without: str, known: Merged | None, grouped: str | None = None
    ) -> Merged | None:
        """Asks for the sum over all devices but one; an unchanged one costs a few hundred bytes."""
        asked = {"without": without} | ({} if grouped is None else {"grouped": grouped})
        found = self._unless_known("/merged", known, asked)
        if found is not None and found.grouped != grouped:
            # One that does not know the question answers with the sum over everybody.
            raise Refused("this server is too old to tell groups apart")
        return found

    def others(self, without: str, known: Merged | None) -> Merged | None:
        """Asks for what all others know and lend; what is unchanged costs a few hundred bytes."""
        return self._unless_known("/others", known, {"without": without})

    def _unless_known(
        self, path: str, known: Merged | None, asked: dict[str, str]
    ) -> Merged | None:
        tag = {} if known is None else {"If-None-Match": f'"{known.revision}"'}
        answer = self._request("GET", path, headers=tag, params=asked)
        unchanged = answer.status_code == httpx.codes.NOT_MODIFIED
        return None if unchanged else Merged.from_bytes(answer.content)

    def groups(self, distance: str) -> dict[str, Any]:
        """Asks for the groups that the server keeps by this distance."""
        return _fields(self._request("GET", "/groups", params={"distance": distance}))

    def rotate_key(self) -> bool:
        """Changes this device's key for a new one that the server gives; see ``Exchange``."""
        if self._keyfile is None:
            raise BadInput(f"{self._device!r} has no file in which a new key could be kept")
        told = _fields(self._request("POST", f"/devices/{address_of(self._device)}/key"))
        key = str(told.get("key"))
        if told.get("name") != self._device or not key.startswith("elm-key-"):
            raise Unreachable("the exchange did not give a new key")
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

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        if self._opened is None:
            self._opened = self._open(self._known_key() or self._enrolled())
        return request(self._opened, method, path, **options)

    def _known_key(self) -> str | None:
        if self._key is None and self._keyfile is not None and self._keyfile.exists():
            self._key = self._keyfile.read_text(encoding="utf-8").strip()
        return self._key

    def _enrolled(self) -> str:
        """Joins the federation; the key that this gives is told once, so it has a place before."""
        if self._told is None:
            self._told = self._asked_for_key()
        self._keep_key(self._told)
        self._key = self._told
        return self._key

    def _asked_for_key(self) -> str:
        if self._token is None:
            raise Unauthorized(f"{self._device!r} needs the federation's token to join, or its key")
        self._keep_key(_NO_KEY)
        try:
            with self._open(self._token) as opened:
                answer = _fields(request(opened, "POST", "/devices", json={"name": self._device}))
            return str(answer["key"])
        except BaseException:  # interrupted as well: leaves no file that holds nothing
            if self._keyfile is not None:
                self._keyfile.unlink(missing_ok=True)
            raise

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


def client(
    url: str,
    secret: str | None,
    *,
    tls: Tls = TLS,
    timeout: float = 30.0,
    root: str = "/v1/federations",
) -> httpx.Client:
    """Opens a connection to one federation, to all of a server's, or to another ``root``."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadInput(f"not the URL of an exchange (http://host:port/federation): {url!r}")
    headers = {"User-Agent": f"elmgrove/{__version__}"}
    if secret is not None:
        headers["Authorization"] = f"Bearer {secret}"
    # Without TLS there is nobody to trust, and reading all certificates takes a while.
    trust = parts.scheme == "https" and _context(tls)
    base = f"{parts.scheme}://{parts.netloc}{root}{parts.path.rstrip('/')}"
    return httpx.Client(base_url=base, headers=headers, verify=trust, timeout=timeout)


def _context(tls: Tls) -> ssl.SSLContext:
    if tls.private_key and not tls.certificate:
        raise BadInput(f"{tls.private_key}: a private key needs its certificate as well")
    try:
        made = ssl.create_default_context(cafile=tls.ca) if tls.ca else httpx.create_ssl_context()
        if tls.certificate:
            # A key with a passphrase is refused, instead of asking for it.
            made.load_cert_chain(tls.certificate, tls.private_key or None, password="")
    except OSError as error:
        files = ", ".join(filter(None, (tls.ca, tls.certificate, tls.private_key)))
        why = error.strerror or error
        raise BadInput(f"{files}: can't be used for TLS (PEM, no passphrase): {why}") from error
    return made


def request(opened: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
    """Asks and gives the answer; what is no answer is raised as the error it stands for."""
    try:
        # httpx appends a slash to its base for an empty path.
        url = str(opened.base_url).rstrip("/") + path
        answer = opened.request(method, url, **options)
    except httpx.TransportError as error:
        raise Unreachable(f"{opened.base_url.host}: {error}") from error
    if answer.status_code < 400:
        return answer
    problem = _problem(answer)
    text = f"{problem.get('title', answer.reason_phrase)}: {problem.get('detail', '')}"
    if answer.status_code in (401, 403):
        raise Unauthorized(text)
    if answer.status_code >= 500 or answer.status_code == 429:
        raise Unreachable(f"{opened.base_url.host}: {text}")
    if "held_epoch" in problem:
        raise Outdated(text, int(problem["held_epoch"]), bool(problem.get("shrunk")))
    raise Refused(text)


def _fields(answer: httpx.Response) -> dict[str, Any]:
    """Reads what an exchange says; a page to log in to some network is no exchange's word."""
    try:
        return dict(answer.json())
    except (TypeError, ValueError) as error:
        raise Unreachable(f"{answer.url.host} is not an Elmgrove exchange") from error


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        problem = answer.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}
