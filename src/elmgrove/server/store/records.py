"""What the store holds: plain records of names, numbers and bytes."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from elmgrove.federation.commands import Command
from elmgrove.reading.times import told as time_told


@dataclass(frozen=True)
class FederationRow:
    """A federation: devices that share a basis.

    ``basis`` is JSON. ``members`` are patterns of the names that may join; None lets any device
    join that has the token. ``merged`` says that one model of everybody decides.
    ``terms`` are JSON.
    """

    name: str
    basis: dict[str, Any]
    ridge: float
    members: tuple[str, ...] | None
    token_hash: str
    created: float
    merged: bool = False
    terms: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceRow:
    """A device that was let in, known by the hash of its key.

    ``expires`` is when the key ends to be valid; None is never. ``next_hash`` is that of a key
    which the device asked for and has not used yet: until then both are valid.
    """

    name: str
    key_hash: str
    revoked: bool
    enrolled: float
    expires: float | None = None
    next_hash: str | None = None

    def invalid(self, now: float) -> str | None:
        """Says why the device's key is not valid at this time, and what to do; None if it is."""
        if self.revoked:
            return f"the key of {self.name!r} was revoked"
        if self.expires is not None and now >= self.expires:
            return (
                f"the key of {self.name!r} expired on {time_told(self.expires)} UTC: an "
                "administrator gives it another with 'elmgrove federation readmit'"
            )
        return None


@dataclass(frozen=True)
class StoredEntry:
    """What a device published, without the bytes; ``digest`` is their SHA-256 in hexadecimal.

    ``left`` marks a departure: the device took its contribution back, so there are no bytes,
    ``digest`` is empty and ``size`` is 0.
    """

    origin: str
    revision: int
    epoch: int
    count: float
    digest: str
    size: int
    received: float
    left: bool

    def holds(self, blob: bytes) -> bool:
        """Says whether these are the bytes that were put, and not damaged since."""
        return sha256(blob).hexdigest() == self.digest


@dataclass(frozen=True)
class Change:
    """What one revision adds to a sum, ``blob``, and what it takes out of it, ``replaced``.

    Either is None where there is nothing: a departure adds none, a first contribution replaces
    none.
    """

    revision: int
    origin: str
    blob: bytes | None
    replaced: bytes | None


@dataclass(frozen=True)
class Snapshot:
    """All contributions as of one revision: (entry, blob) in the order of the origins.

    ``blobs`` can be read once, while the snapshot is open.
    """

    revision: int
    blobs: AsyncIterator[tuple[StoredEntry, bytes]]


@dataclass(frozen=True)
class ToldRow:
    """What a device last told of itself: ``report`` is JSON, without minutes and events.

    ``time`` is by the device's clock, ``received`` by the server's; by ``due`` it ought to be heard
    of again, if it said how often it syncs.
    """

    device: str
    received: float
    time: float
    due: float | None
    report: dict[str, Any]


@dataclass(frozen=True)
class Event:
    """An event that a device told of; ``details`` is JSON.

    ``ended`` is None while it is open. ``begin`` and ``ended`` are times in any case, those of
    telling where the rows have none.
    """

    device: str
    number: int
    begin: float
    ended: float | None
    peak: float
    details: dict[str, Any]


@dataclass(frozen=True)
class CommandRow:
    """A command, and what its device said after it; ``done`` is None until then."""

    command: Command
    device: str
    done: float | None = None
    refused: bool | None = None
    said: tuple[str, ...] = ()
