"""Which entry of a device may follow which: the rule of every exchange that keeps them."""

from dataclasses import dataclass

from elmgrove.errors import ElmgroveError


class Refused(ElmgroveError):
    """An exchange did not take an entry, and nothing changed; the text holds its reason."""


class Outdated(Refused):
    """The exchange holds a version of this device that what came can't replace.

    ``held_epoch`` is the epoch to get past; with ``shrunk`` the device also has to leave first.
    """

    def __init__(self, message: str, held_epoch: int, shrunk: bool) -> None:
        super().__init__(message)
        self.held_epoch = held_epoch
        self.shrunk = shrunk


@dataclass(frozen=True)
class Version:
    """What the rule needs to know of an entry; ``count`` is None for a departure."""

    epoch: int
    count: float | None
    digest: str


def follows(held: Version | None, new: Version) -> bool:
    """Whether ``new`` is to be stored; False if it is what is held already.

    Raises ``Outdated`` if it is not newer, or if it stands for fewer rows than before though the
    device did not leave in between: two devices under one name, or a state that was restored.
    """
    if held is None:
        return True
    if (new.epoch, new.digest) == (held.epoch, held.digest):
        return False
    if new.epoch <= held.epoch:
        raise Outdated(
            f"epoch {new.epoch} is not newer than epoch {held.epoch}, which is held",
            held.epoch,
            _shrinks(held, new),
        )
    if _shrinks(held, new):
        raise Outdated(
            f"{new.count:g} rows where {held.count:g} are held, and the device did not leave",
            held.epoch,
            True,
        )
    return True


def _shrinks(held: Version, new: Version) -> bool:
    if held.count is None or new.count is None:
        return False
    # Where old rows are forgotten, the count ends up at a constant, but for rounding.
    return new.count < held.count * (1.0 - 1e-9)
