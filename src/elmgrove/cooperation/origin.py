"""Names of devices and numbers of versions: what makes a usable one."""

from elmgrove.errors import BadInput


def require_origin(origin: str) -> None:
    """Raises ``BadInput`` unless ``origin`` can name a device."""
    if not origin or not origin.isprintable() or len(origin) > 200:
        raise BadInput(f"an origin is a name of 1 to 200 printable characters: {origin!r}")


def require_epoch(epoch: int) -> None:
    """Raises ``BadInput`` unless ``epoch`` can number a version; 63 bits, as data bases hold."""
    if type(epoch) is not int or not 0 <= epoch < 2**63:
        raise BadInput(f"an epoch is a whole number from 0 to 2⁶³ − 1, not {epoch!r}")
