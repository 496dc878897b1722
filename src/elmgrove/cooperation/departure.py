"""A departure: a device takes its part out of everybody's model."""

from dataclasses import asdict, dataclass

from elmgrove.codec import kind_of, require_written_as, seal, unpacking, unseal
from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.origin import require_epoch, require_origin

KIND = "elmgrove.departure"


@dataclass(frozen=True)
class Departure:
    """The word that a device left, to be passed on like a contribution.

    It stands in the ledger in the place of what the device contributed and keeps older versions,
    which may still be under way, from coming back. A contribution with a higher epoch ends it.
    """

    origin: str
    epoch: int

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(self.epoch)

    def to_bytes(self) -> bytes:
        """The file format of a departure."""
        return seal(KIND, asdict(self), {})

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Departure":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(KIND, blob)
        with unpacking("a departure"):
            made = cls(fields["origin"], fields["epoch"])
            require_written_as((asdict(made), {}), fields, arrays)
        return made


#: What is known of a device: what it contributed, or that it left.
Entry = Contribution | Departure


def entry_from_bytes(blob: bytes) -> Entry:
    """Whichever of the two a blob holds; ``BadFile`` for anything else."""
    return (Departure if kind_of(blob) == KIND else Contribution).from_bytes(blob)
