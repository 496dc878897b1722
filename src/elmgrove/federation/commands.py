"""Commands: actions that wait on a server until their device comes for them; and their outcomes."""

import re
from dataclasses import asdict, dataclass
from typing import Any

from elmgrove.errors import BadInput
from elmgrove.federation.validation import (
    require_count,
    require_fields,
    require_flag,
    require_json,
    require_line,
    require_list,
    require_moment,
    require_text,
)
from elmgrove.reading.times import stated_time

#: The words that say when, each a time in ISO 8601 or in seconds since 1970: from then on,
FROM = "from"
#: and until then.
TO = "to"
#: The word by which a new normal takes the place of what was learned.
INSTEAD = "instead"
#: The word for the number of an event, in the place of a time.
EVENT = "event"
#: What a device can be sent: the actions, and the words that go with each.
COMMANDS: dict[str, tuple[str, ...]] = {
    "accept": (FROM, TO, EVENT, INSTEAD),
    "reject": (FROM, TO, EVENT),
    "undo": (),
}
# Letters of a line that a device says after a command, and such lines.
_MOST_LETTERS = 1000
_MOST_LINES = 20
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


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
        _require_id("id", self.id)
        if not isinstance(self.action, str) or self.action not in COMMANDS:
            raise BadInput(f"action is {' or '.join(COMMANDS)}, not {self.action!a:.40}")
        _require_words(self.action, self.words)
        require_line("asked_by", self.asked_by, 100)
        require_moment("asked_at", self.asked_at)

    @property
    def fields(self) -> dict[str, Any]:
        """The command as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_fields(cls, stated: Any) -> "Command":
        """Makes a command of what ``fields`` gave; ``BadInput`` names the field that is wrong."""
        return cls(**require_fields("a command", stated, cls.__dataclass_fields__))


@dataclass(frozen=True)
class CommandResult:
    """What a device said after a command: when, in which lines, and whether it refused."""

    command: str
    time: float
    refused: bool
    said: tuple[str, ...]

    def __post_init__(self) -> None:
        _require_id("command", self.command)
        require_moment("time", self.time)
        require_flag("refused", self.refused)
        said = require_list("said", self.said, _MOST_LINES)
        lines = tuple(require_text("said", line, _MOST_LETTERS) for line in said)
        object.__setattr__(self, "said", lines)

    @property
    def fields(self) -> dict[str, Any]:
        """The outcome as JSON holds it."""
        return {**asdict(self), "said": list(self.said)}

    @classmethod
    def from_fields(cls, stated: Any) -> "CommandResult":
        """Makes an outcome of what ``fields`` gave; ``BadInput`` names the field that is wrong."""
        return cls(**require_fields("an outcome", stated, cls.__dataclass_fields__))


def _require_id(name: str, stated: Any) -> str:
    if not isinstance(stated, str) or not _ID.fullmatch(stated):
        raise BadInput(f"{name} of a command has 1 to 64 letters, digits, '_' or '-'")
    return stated


def _require_words(action: str, words: Any) -> None:
    if not isinstance(words, dict) or not words.keys() <= set(COMMANDS[action]):
        known = ", ".join(COMMANDS[action]) or "nothing"
        raise BadInput(f"words of {action} are an object with {known}")
    require_json("words", words, 400)
    for name, word in words.items():
        if word is None:
            raise BadInput(f"{name!r} is null: give it a value, or leave the word out")
    for name in (FROM, TO):
        if name in words:
            stated_time(name, words[name])
    if EVENT in words:
        require_count(EVENT, words[EVENT])
    require_flag(INSTEAD, words.get(INSTEAD, False))
