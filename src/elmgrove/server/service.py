"""The service: what all requests share."""

from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect, Request

from elmgrove.federation import Charter
from elmgrove.server.groupings import Groupings
from elmgrove.server.problems import Problem
from elmgrove.server.records import Federation
from elmgrove.server.store import Store
from elmgrove.server.sums import Sums


@dataclass
class Service:
    """The store, sums and groups kept ready, who the administrator is, and how much may come in."""

    store: Store
    admin_hash: str
    max_body: int
    sums: Sums = field(init=False)
    groupings: Groupings = field(init=False)
    _charters: dict[tuple[str, float], Charter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = Sums(self.store)
        self.groupings = Groupings(self.store)

    def charter(self, federation: Federation) -> Charter:
        """A federation's charter; made once, since every request asks for it."""
        key = (federation.name, federation.created)
        if key not in self._charters:
            self._charters[key] = Charter.from_fields(
                {
                    "name": federation.name,
                    "basis": federation.basis,
                    "ridge": federation.ridge,
                    "members": federation.members,
                }
            )
        return self._charters[key]


def service_of(request: Request) -> Service:
    """The service behind a request."""
    service: Service = request.app.state.service
    return service


async def body_of(request: Request, limit: int) -> bytes:
    """The request's body, if it is no longer than ``limit``, whatever its headers claim."""
    chunks, size = list[bytes](), 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise Problem("too-large", f"more than the {limit} bytes that this can need")
            chunks.append(chunk)
    except ClientDisconnect:
        raise Problem("malformed", "the body broke off") from None
    return b"".join(chunks)
