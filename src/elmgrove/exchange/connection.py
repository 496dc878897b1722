"""Connecting: from where an exchange is to a device that is in step with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmgrove.errors import BadInput
from elmgrove.exchange.base import TLS, EntriesExchange, Exchange, Tls
from elmgrove.exchange.broker_address import is_at_broker
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.session import Session
from elmgrove.federation.member import Member
from elmgrove.federation.selection import Rule
from elmgrove.storage.disk import load, save

if TYPE_CHECKING:
    from elmgrove.exchange.http import HttpExchange


def connect(
    url: str,
    name: str,
    *,
    token: str | None = None,
    key: str | None = None,
    password: str | None = None,
    state: str | Path | None = None,
    ca: str | None = None,
    certificate: str | None = None,
    private_key: str | None = None,
    rule: Rule | None = None,
    guarded: bool = True,
    **settings: Any,
) -> Session:
    """Opens a session with the exchange at ``url``, for the device of this name.

    ``url`` is a server's with the federation's name at its end (``https://host:8470/fans``), a
    folder's path, or a broker's with the federation's topic (``mqtts://fan-1@host/elmgrove/fans``,
    with the user's ``password``). The first time, ``token`` joins the federation there; the key it
    gives is kept beside the state (``fan-1.key`` beside ``fan-1.elm``) and used from then on, or
    comes as ``key``. With ``state``, the device goes on from that file and is saved to it before
    anything leaves it and when the session is closed; without, it lives in memory. ``ca``,
    ``certificate`` and ``private_key`` are those of ``Tls``. ``settings`` are the detector's, for a
    new device: layer, scaling and ridge are the federation's.
    """
    path = None if state is None else Path(state)
    tls = Tls(ca, certificate, private_key)
    exchange = open_exchange(
        url,
        name,
        token=token,
        key=key,
        keyfile=keyfile(path),
        tls=tls,
        password=password,
    )
    try:
        member = _member(path, name, exchange, settings)
        return Session(
            member,
            exchange,
            rule=rule,
            guarded=guarded,
            save=(lambda member: None) if path is None else (lambda member: save(path, member)),
        )
    except BaseException:  # interrupted as well: nobody else can close it
        exchange.close()
        raise


def keyfile(state: Path | None) -> Path | None:
    """Names the file in which a device keeps its key, beside its state."""
    if state is None:
        return None
    return state.with_name(f"{state.name if state.suffix == '.key' else state.stem}.key")


def open_exchange(
    url: str,
    name: str,
    *,
    token: str | None = None,
    key: str | None = None,
    keyfile: Path | None = None,
    tls: Tls = TLS,
    user: str = "",
    password: str | None = None,
) -> "HttpExchange | EntriesExchange":
    """Opens the exchange behind a URL or a path. It is not spoken to before it is needed.

    ``user`` and ``password`` are those at a broker, where the URL's user comes first.
    """
    if is_at_broker(url):
        # Paho is an extra, which most devices do without.
        from elmgrove.exchange.mqtt import MqttExchange

        return MqttExchange(url, name, user=user, password=password, tls=tls)
    if not url.startswith(("http://", "https://")):
        return FolderExchange(Path(url.removeprefix("folder:")))
    # httpx takes a while to load, and a folder needs none of it.
    from elmgrove.exchange.http import HttpExchange

    return HttpExchange(url, name, token=token, key=key, keyfile=keyfile, tls=tls)


def _member(path: Path | None, name: str, exchange: Exchange, settings: dict[str, Any]) -> Member:
    if path is None or not path.exists():
        return exchange.charter.start(name, **settings)
    member = load(path, Member.from_bytes)
    if member.name != name:
        raise BadInput(f"{path} is the state of {member.name!r}, not of {name!r}")
    return member
