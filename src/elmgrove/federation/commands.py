"""Commands: actions that wait on a server until their device comes for them; and their results."""

from dataclasses import asdict, dataclass
from typing import Any

from elmgrove.errors import BadInput
from elmgrove.federation.schemas import CommandMessage, Count, Result, check, read
from elmgrove.reading.times import stated_time

#: What a device can be sent: the actions, and the words that go with each.
COMMANDS: dict[str, tuple[str, ...]] = {
    "accept": ("from", "to", "event", "instead"),
    "reject": ("from", "to", "event"),
    "undo": (),
}


@dataclass(frozen=True)
class Command:
    """An ``action`` with its ``words``, as the device's own actions take them.

    ``from`` and ``to`` are times in ISO 8601 or seconds since 1970; there are never rows in it.
    ``id`` names it, so that it is done once however often it is told.
    """

    id: str
    action: str
    words: dict[str, Any]
    asked_by: str
    asked_at: float

    def __post_init__(self) -> None:
        check(CommandMessage, self.fields, {"words": 400})
        known = COMMANDS[self.action]
        for name, word in self.words.items():
            if name not in known or word is None:
                raise BadInput(
                    f"words of {self.action} are {', '.join(known) or 'none'}, with values"
                )
            if name in ("from", "to"):
                stated_time(name, word)
            else:
                read(bool if name == "instead" else Count, word)

    @property
    def fields(self) -> dict[str, Any]:
        """The command as JSON holds it."""
        return dict(vars(self))

    @classmethod
    def from_fields(cls, stated: Any) -> "Command":
        """Makes a command of what ``fields`` gave; ``BadInput`` names the path that is wrong."""
        read(CommandMessage, stated)
        return cls(**stated)


@dataclass(frozen=True)
class CommandResult:
    """What a device said after a command: when, in which lines, and whether it refused."""

    command: str
    time: float
    refused: bool
    said: tuple[str, ...]

    def __post_init__(self) -> None:
        check(Result, self.fields)

    @property
    def fields(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {**asdict(self), "said": list(self.said)}

    @classmethod
    def from_fields(cls, stated: Any) -> "CommandResult":
        """Makes an result of what ``fields`` gave; ``BadInput`` names the path that is wrong."""
        read(Result, stated)
        return cls(**{**stated, "said": tuple(stated["said"])})
