"""The listener: what other agents pull, and if there is a token for it the agent's control."""

import hmac
import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from elmgrove.device.doors import Call, Door, Refusal, Said
from elmgrove.errors import BadInput
from elmgrove.exchange import PATH
from elmgrove.federation import Member, bundle


class Listener:
    """Gives other agents what a member published and what it received, as of the last ``tell``.

    What the member learned since then stays on the device: the upload guard holds for peers as
    well. The connection is not encrypted; across networks that are not yours, use a tunnel.
    With a ``control_token``, callers that have it are answered by ``control`` as well.
    """

    def __init__(
        self,
        address: str,
        token: str | None,
        control_token: str = "",
        control: Callable[[Call], Said] | None = None,
    ) -> None:
        self._content = b""
        self._token = token
        self._control = control if control_token else None
        self._control_token = control_token
        host, _, port = address.rpartition(":")
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}
        try:
            self._door = Door((host.strip("[]"), int(port)), self._answer)
        except OSError as error:
            raise BadInput(
                f"listen: {address}: {error.strerror}; choose another address"
            ) from error

    @property
    def url(self) -> str:
        """The listener's address on this machine."""
        host, port = self._door.address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def tell(self, member: Member) -> None:
        """Takes what the member may tell others, and gives it to agents that ask from now on."""
        own = [] if member.shared is None else [member.shared]
        self._content = bundle(entry.to_bytes() for entry in [*own, *member.ledger.entries])

    def close(self) -> None:
        """Stops listening."""
        self._door.close()

    def _answer(self, call: Call) -> Said:
        if call.path != PATH:
            return self._controlled(call)
        if call.method != "GET":
            raise Refusal("method-not-allowed", "GET it")
        if self._token:
            _require_token(call, self._token)
        return Said(self._content, "application/octet-stream")

    def _controlled(self, call: Call) -> Said:
        if self._control is None:
            raise Refusal("not-found", f"there is {PATH}")
        self._require_no_page(call)
        _require_token(call, self._control_token)
        return self._control(call)

    def _require_no_page(self, call: Call) -> None:
        """Refuses pages of a browser: those that say so, and those that come by a foreign name.

        Whoever owns a name can let it lead here: then a page of theirs is at home with the agent.
        """
        if "Origin" in call.headers:
            raise Refusal("forbidden", "requests of pages (with an Origin) are not answered")
        name = _name(call.headers.get("Host", ""))
        if name not in self._names and not _is_number(name):
            raise Refusal("forbidden", f"this agent is not called {name!r:.80}: use its number")


def _require_token(call: Call, token: str) -> None:
    given, wanted = call.headers.get("Authorization", ""), f"Bearer {token}"
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        raise Refusal("unauthorized", "send it as Authorization: Bearer ...")


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
