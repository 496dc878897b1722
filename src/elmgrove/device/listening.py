"""Where an agent listens: at a local socket, and if it is told to at a port."""

import hashlib
import hmac
import ipaddress
import logging
import os
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from elmgrove.device.doors import Call, Door, Refusal, Said
from elmgrove.errors import BadInput

#: The header by which a command says which state it means: a hash of where that is.
MEANT = "Elmgrove-State"

log = logging.getLogger("elmgrove.device")


class Listener:
    """Lets ``control`` answer callers that have the token, at a port.

    The connection is not encrypted; across networks that are not yours, use a tunnel.
    """

    def __init__(self, address: str, token: str, control: Callable[[Call], Said]) -> None:
        self._token = token
        self._control = control
        host = address.rpartition(":")[0]
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}
        self._door = door_at("listen", address, self._answer)

    @property
    def url(self) -> str:
        """The listener's address on this machine."""
        host, port = self._door.address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def close(self) -> None:
        """Stops listening."""
        self._door.close()

    def _answer(self, call: Call) -> Said:
        self._require_no_page(call)
        _require_token(call, self._token)
        return self._control(call)

    def _require_no_page(self, call: Call) -> None:
        """Refuses pages of a browser: those that say so, and those that come by a foreign name.

        The owner of a name can let it lead here: then a page of theirs is at home with the agent.
        """
        if "Origin" in call.headers:
            raise Refusal("forbidden", "requests of pages (with an Origin) are not answered")
        name = _name(call.headers.get("Host", ""))
        if name not in self._names and not _is_number(name):
            raise Refusal("forbidden", f"this agent is not called {name!r:.80}: use its number")


class LocalSocket:
    """The socket for commands on this machine: only the owner of the state may use it.

    Who says that another state is meant is refused: a name in a folder of everybody can lead to
    the socket of another agent. Where there can be none, the agent goes on without.
    """

    def __init__(self, state: Path, control: Callable[[Call], Said]) -> None:
        self._door: Door | None = None
        self._state, self._control = state, control
        troubles = list[str]()
        for place in socket_places(state) if hasattr(socket, "AF_UNIX") else ():
            try:
                # The state is locked, so no agent is behind a socket that is there.
                place.unlink(missing_ok=True)
                self._door = Door(place, self._answer)
                return
            except OSError as error:
                troubles.append(str(error))
        log.info("no local socket, so no commands while it runs. %s", "; ".join(troubles))

    def close(self) -> None:
        """Stops listening, and removes the socket."""
        if self._door is not None:
            with suppress(OSError):
                Path(self._door.address).unlink(missing_ok=True)
            self._door.close()

    def _answer(self, call: Call) -> Said:
        own = hash_of(self._state)
        if call.headers.get(MEANT, own) != own:
            raise Refusal("refused", f"this agent has another state, {self._state.name}")
        return self._control(call)


def door_at(setting: str, address: str, answer: Callable[[Call], Said]) -> Door:
    """Opens a door at host:port, or raises ``BadInput`` that names the setting."""
    host, _, port = address.rpartition(":")
    try:
        return Door((host.strip("[]"), int(port)), answer)
    except OSError as error:
        raise BadInput(f"{setting}: {address}: {error.strerror}; choose another address") from error


def hash_of(state: Path) -> str:
    """Tells states apart by where they are, in a few letters."""
    return hashlib.sha256(os.fsencode(_beside(state))).hexdigest()[:16]


def socket_places(state: Path) -> list[Path]:
    """Names where the socket of the agent that has this state may be, the best place first.

    Beside the state, as the lock is; in the system's folder for temporary files where that path is
    too long for a socket, or the disk has none.
    """
    places = [_beside(state)]
    # Where no disk takes anything there is no such folder.
    with suppress(FileNotFoundError):
        places.append(Path(tempfile.gettempdir()) / f"elmgrove-{hash_of(state)}.sock")
    return places


def _beside(state: Path) -> Path:
    real = Path(os.path.realpath(state))
    return real.with_name(f".{real.name}.sock")


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
