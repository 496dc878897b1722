"""Announcements: what a device leaves at a broker of its entry, small enough for all to read."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from elmgrove.errors import BadFile, BadInput, ElmgroveError
from elmgrove.federation import (
    Contribution,
    Entry,
    Version,
    entry_from_bytes,
    require_epoch,
    require_origin,
)

#: The bytes of an announcement, at most.
MOST_ANNOUNCED = 2048
#: Announcements lie under as many topics. A broker that is asked for all of one gives out few
#: enough at a time; some drop what is more than a thousand.
SHARDS = "0123456789abcdef"
_FORMAT = 1
_LONGEST_URL = 500


def shard_of(address: str) -> str:
    """Gives the shard of a device, by its name as it is in topics."""
    return hashlib.sha256(address.encode()).hexdigest()[0]


@dataclass(frozen=True)
class Announcement:
    """Says that there is an entry of a device, and what it must be when it is fetched.

    The entry is retained by the broker or, where that is too much for a message, on the Elmgrove
    server at ``url``. ``rows`` is None for a departure, of which nothing has to be fetched.
    """

    device: str
    epoch: int
    rows: float | None
    size: int
    sha256: str
    url: str = ""

    def __post_init__(self) -> None:
        require_origin(self.device)
        require_epoch(self.epoch)
        if self.rows is not None and not (_is_number(self.rows) and 0 <= self.rows < math.inf):
            raise BadInput(f"rows: a finite number from 0 on, not {self.rows!r:.80}")
        if type(self.size) is not int or not 0 <= self.size < 2**63:
            raise BadInput(f"size: a whole number of bytes, not {self.size!r:.80}")
        if not isinstance(self.sha256, str) or not _is_digest(self.sha256):
            raise BadInput(f"sha256: 64 digits from 0 to f, not {self.sha256!r:.80}")
        is_text = isinstance(self.url, str) and (not self.url or self.url.isprintable())
        if not is_text or len(self.url) > _LONGEST_URL:
            raise BadInput(f"url: a text of at most {_LONGEST_URL} letters, not {self.url!r:.80}")

    @classmethod
    def of(cls, entry: Entry, blob: bytes, url: str = "") -> "Announcement":
        """Announces an entry, of which these are the bytes."""
        rows = entry.evidence.count if isinstance(entry, Contribution) else None
        digest = hashlib.sha256(blob).hexdigest()
        return cls(entry.origin, entry.epoch, rows, len(blob), digest, url)

    @property
    def version(self) -> Version:
        """What ``follows`` needs to know of the entry."""
        return Version(self.epoch, self.rows, self.sha256)

    @property
    def left(self) -> bool:
        """Whether the device left."""
        return self.rows is None

    def entry_of(self, blob: bytes) -> Entry:
        """Reads the entry that was announced, or a newer one of the same device.

        A device replaces its entry before it announces that, so a newer one may be there already.
        ``BadFile`` for anything else: what is older, was altered, or is another device's.
        """
        entry = entry_from_bytes(blob)
        if entry.origin != self.device:
            raise BadFile(f"an entry of {entry.origin!r} under another name")
        if entry.epoch < self.epoch:
            raise BadFile(f"older (epoch {entry.epoch}) than was announced (epoch {self.epoch})")
        if entry.epoch == self.epoch and Announcement.of(entry, blob, self.url) != self:
            raise BadFile("not what was announced")
        return entry

    def to_bytes(self) -> bytes:
        """Writes it as JSON."""
        return json.dumps({"format": _FORMAT, **asdict(self)}).encode()

    @classmethod
    def from_bytes(cls, payload: bytes) -> "Announcement":
        """Reads what ``to_bytes`` wrote; ``BadFile`` for anything else."""
        try:
            fields = json.loads(payload)
            if not isinstance(fields, dict):
                raise BadInput("it is no object")
            if fields.pop("format", None) != _FORMAT:
                raise BadInput("it is of no format that this version of Elmgrove can read")
            return cls(**_texts(fields))
        except ElmgroveError as error:
            raise BadFile(f"no announcement: {error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise BadFile(f"no announcement: {error!r:.200}") from error


def _texts(fields: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(fields.get("device"), str):
        raise BadInput(f"device: a name, not {fields.get('device')!r:.80}")
    return fields


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set(SHARDS)
