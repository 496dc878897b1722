"""Answers: who said what of anomalous rows, and all that it takes to undo the last one."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array
from elmgrove.detector.history import Bucket
from elmgrove.detector.quarantine import Waiting
from elmgrove.errors import BadInput, require_whole
from elmgrove.reading.times import told as time_told

ACCEPT, REJECT, UNDO = ACTIONS = "accept", "reject", "undo"
#: Answers that are remembered; only the last one can be undone.
REMEMBERED = 10

_WORDS = {ACCEPT: "fine", REJECT: "a fault"}
_PREFIX = "undo."


@dataclass(frozen=True)
class Answer:
    """What somebody said: ``by`` whom, ``at`` what time (seconds since 1970), and what came of it.

    ``rows`` waited or were given and were learned or dropped, ``taken`` were learned before and
    taken out; of an undo ``rows`` wait again, and ``taken`` are the rows that were put back or, of
    an accept, taken out. ``event`` is the number of the event that it was about, if there was one;
    ``undone`` is the action that was undone.
    """

    action: str
    by: str
    at: float | None
    rows: int
    taken: int
    event: int | None = None
    undone: str | None = None

    def __post_init__(self) -> None:
        if self.action not in ACTIONS or self.undone not in (None, ACCEPT, REJECT):
            raise BadInput(f"an answer is one of {', '.join(ACTIONS)}, not {self.action!r:.40}")
        for name in ("rows", "taken"):
            require_whole(name, getattr(self, name), 0)

    @property
    def said(self) -> str:
        """What it was said to be, and who said so and when."""
        who = ", ".join(filter(None, [self.by, "" if self.at is None else _clock(self.at)]))
        what = _WORDS.get(self.action, "undone")
        return f"{what} ({who})" if who else what

    def __str__(self) -> str:
        about = "" if self.event is None else f"event {self.event}: "
        if self.action == UNDO:
            what = "" if self.undone is None else f", before: {_WORDS[self.undone]}"
            return f"{about}{self.said}{what}; {self.rows:,} rows wait again"
        done = "learned" if self.action == ACCEPT else "dropped"
        return f"{about}{self.said}; {self.rows:,} rows {done}, {self.taken:,} taken out"


@dataclass
class Undoable:
    """How things were before the last answer, as far as that can't be found out otherwise.

    ``learned`` and ``until`` count the rows learned before and after it; ``out`` was taken out,
    and ``waiting`` waited. ``recent`` and ``watch`` are what was known of the last rows and of the
    change that was asked about; ``running`` is the event that the answer ended.
    """

    answer: Answer
    learned: int
    until: int
    out: tuple[Bucket, ...]
    waiting: Sequence[Waiting]
    recent: Packed
    watch: Packed | None = None
    running: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None
    answered: str = ""
    rejected: bool = False

    @property
    def pins(self) -> tuple[int, ...]:
        """The numbers of learned rows around what was learned, and where something is missing."""
        ends = {self.learned, self.until}
        for one in self.out:
            # Where two follow each other, what is missing goes on.
            ends ^= {one.after, one.until}
        return tuple(sorted(ends | {self.learned, self.until}))

    def pack(self) -> Packed:
        """Packs all of it."""
        packed = [one.pack(f"{_PREFIX}increment.{index}") for index, one in enumerate(self.out)]
        arrays = {name: array for _, more in packed for name, array in more.items()}
        stamps = [(one.since, one.time, one.score) for one in self.waiting]
        arrays[f"{_PREFIX}waiting"] = np.array([one.row for one in self.waiting])
        arrays[f"{_PREFIX}waiting_stamps"] = np.array(stamps, np.float64).reshape(-1, 3)
        recent, more = self.recent
        arrays |= {f"{_PREFIX}recent.{name}": array for name, array in more.items()}
        fields = {
            "learned": self.learned,
            "until": self.until,
            "out": [numbers for numbers, _ in packed],
            "recent": recent,
            "running": self.running,
            "progress": self.progress,
            "answered": self.answered,
            "rejected": self.rejected,
        }
        if self.watch is not None:
            fields["watch"], more = self.watch
            arrays |= {f"{_PREFIX}watch.{name}": array for name, array in more.items()}
        return fields, arrays

    @classmethod
    def unpack(
        cls, answer: Answer, basis: Basis, fields: Mapping[str, Any], arrays: Mapping[str, Array]
    ) -> "Undoable":
        """Makes it of what ``pack`` gave."""
        rows = arrays[f"{_PREFIX}waiting"].reshape(-1, basis.inputs)
        stamps = arrays[f"{_PREFIX}waiting_stamps"].tolist()
        waiting = [
            Waiting(_known(time), _known(score), row, _known(since))
            for row, (since, time, score) in zip(rows, stamps, strict=True)
        ]
        out = tuple(
            Bucket.unpack(basis, f"{_PREFIX}increment.{index}", one, arrays)
            for index, one in enumerate(fields["out"])
        )
        learned = require_whole("learned", fields["learned"], 0)
        watch = fields.get("watch")
        return cls(
            answer,
            learned,
            require_whole("until", fields["until"], learned),
            out,
            waiting,
            (fields["recent"], _under("recent.", arrays)),
            None if watch is None else (watch, _under("watch.", arrays)),
            fields["running"],
            fields["progress"],
            fields["answered"],
            fields["rejected"],
        )


@dataclass
class Answers:
    """The last answers, newest last, and what undoes the last of them."""

    given: deque[Answer] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    undoable: Undoable | None = None

    def pack(self) -> Packed:
        """Packs all of them; nothing before the first."""
        if not self.given:
            return {}, {}
        fields: dict[str, Any] = {"given": [asdict(one) for one in self.given]}
        if self.undoable is None:
            return {"answers": fields}, {}
        fields["undo"], arrays = self.undoable.pack()
        return {"answers": fields}, arrays

    def restore(self, basis: Basis, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from what was packed."""
        known = fields.get("answers")
        if known is None:
            return
        self.given.extend(Answer(**one) for one in known["given"])
        if "undo" in known:
            self.undoable = Undoable.unpack(self.given[-1], basis, known["undo"], arrays)


def _under(name: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    prefix = _PREFIX + name
    return {
        key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)
    }


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _clock(at: float) -> str:
    return f"{time_told(at)[:16]} UTC"
