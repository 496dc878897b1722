"""The exchange server, as a device sees it."""

import time
from collections.abc import Collection
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from elmgrove import __version__
from elmgrove.cooperation import (
    Charter,
    Contribution,
    Cost,
    Entry,
    Merged,
    Outdated,
    Refused,
    address_of,
    entry_from_bytes,
    unbundle,
)
from elmgrove.errors import BadInput
from elmgrove.exchange.interface import Listing, Unauthorized, Unreachable

#: Entries fetched with one request; more would make the URL too long.
AT_ONCE = 20


class HttpExchange:
    """Speaks with ``elmgrove serve``; ``url`` ends in the federation's name.

    ``key`` is the device's own, which ``enrol`` gives. ``ca`` is a file with the certificate of
    whoever signed the server's, if that is nobody this machine trusts anyway.
    """

    def __init__(self, url: str, key: str, *, ca: str | None = None, timeout: float = 30.0) -> None:
        self._client = client(url, key, ca=ca, timeout=timeout)
        self._charter: Charter | None = None
        # Until something was fetched: a slow line.
        self._bytes_a_second = 1e6

    @property
    def charter(self) -> Charter:
        """See ``Exchange``; asked for once."""
        if self._charter is None:
            self._charter = Charter.from_fields(self._request("GET", "").json())
        return self._charter

    def publish(self, entry: Entry) -> None:
        """See ``Exchange``."""
        where = f"/contributions/{address_of(entry.origin)}"
        if isinstance(entry, Contribution):
            self._request("PUT", where, content=entry.to_bytes())
        else:
            self._request("DELETE", where, params={"epoch": entry.epoch})

    def listings(self) -> list[Listing]:
        """See ``Exchange``."""
        return [
            Listing(
                item["origin"],
                item["epoch"],
                item["left"],
                Cost(item["size"] / self._bytes_a_second, item["size"]),
            )
            for item in self._request("GET", "/entries").json()["entries"]
        ]

    def fetch(self, origins: Collection[str]) -> list[Entry]:
        """See ``Exchange``."""
        names, entries = sorted(origins), list[Entry]()
        for start in range(0, len(names), AT_ONCE):
            wanted = {"origin": names[start : start + AT_ONCE]}
            began = time.monotonic()
            content = self._request("GET", "/contributions", params=wanted).content
            self._bytes_a_second = max(len(content), 1) / max(time.monotonic() - began, 1e-6)
            entries += [entry_from_bytes(blob) for blob in unbundle(content)]
        return entries

    def merged(self, without: str, known: Merged | None) -> Merged | None:
        """See ``Exchange``. An unchanged sum costs a few hundred bytes."""
        tag = {} if known is None else {"If-None-Match": f'"{known.revision}"'}
        answer = self._request("GET", "/merged", headers=tag, params={"without": without})
        return None if answer.status_code == httpx.codes.NOT_MODIFIED else _merged(answer.content)

    def close(self) -> None:
        """See ``Exchange``."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return request(self._client, method, path, **options)


def enrol(url: str, token: str, device: str, *, ca: str | None = None) -> str:
    """Joins a federation with its token; gives the key that is this device's alone."""
    with client(url, token, ca=ca, timeout=30.0) as opened:
        return str(request(opened, "POST", "/devices", json={"name": device}).json()["key"])


def client(url: str, secret: str | None, *, ca: str | None, timeout: float) -> httpx.Client:
    """A connection to one federation, or to a server's root."""
    import ssl

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise BadInput(f"not the URL of an exchange (http://host:port/federation): {url!r}")
    headers = {"User-Agent": f"elmgrove/{__version__}"}
    if secret is not None:
        headers["Authorization"] = f"Bearer {secret}"
    trust: Any = True if ca is None else ssl.create_default_context(cafile=ca)
    base = f"{parts.scheme}://{parts.netloc}/v1/federations{parts.path.rstrip('/')}"
    return httpx.Client(base_url=base, headers=headers, verify=trust, timeout=timeout)


def request(opened: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
    """An answer that is one; everything else as the error it stands for."""
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


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        problem = answer.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _merged(content: bytes) -> Merged:
    return Merged.from_bytes(content)
