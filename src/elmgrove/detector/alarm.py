"""From single strange rows to alarms that are worth a person's time."""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from elmgrove.detector.verdict import Verdict
from elmgrove.detector.when import When
from elmgrove.errors import BadInput, require_whole

#: The most rows that an alarm looks back at, or is calm after.
MOST_ROWS = 1_000_000_000


@dataclass(frozen=True)
class AlarmRule:
    """An alarm when ``k`` of the last ``n`` rows were strange, and calm after ``cooldown`` rows.

    The default is what a person would choose: a row or two that are odd tell nobody, three of five
    do, and what comes back within 60 rows is still the same event. With a window, rows are inputs,
    and one row that is far off can make as many of them strange: that is an alarm, too.
    """

    k: int = 3
    n: int = 5
    cooldown: int = 60

    def __post_init__(self) -> None:
        for name, least in (("k", 1), ("n", 1), ("cooldown", 0)):
            object.__setattr__(
                self, name, require_whole(f"the alarm's {name}", getattr(self, name), least)
            )
            if getattr(self, name) > MOST_ROWS:
                raise BadInput(f"the alarm's {name} must be at most {MOST_ROWS:,} rows")
        if self.k > self.n:
            raise BadInput(f"an alarm needs 1 ≤ k ≤ n, not k = {self.k} and n = {self.n}")

    @property
    def calm(self) -> int:
        """The rows without another alarm after which all is normal again: never less than n."""
        return max(self.cooldown, self.n)


class Mark(NamedTuple):
    """A strange row: its number, when it was, and its verdict (None after a restart).

    ``learned`` counts the rows that had been learned by then.
    """

    row: int
    when: When
    verdict: Verdict | None = None
    learned: int = 0


class Alarm:
    """Applies k of n to a stream, of which it is told the strange rows alone.

    >>> alarm = Alarm(AlarmRule(k=2, n=3))
    >>> [alarm.raised(Mark(row, row)) for row in (1, 4, 6, 7)]
    [False, False, True, True]
    >>> alarm.first.row
    6
    """

    def __init__(self, rule: AlarmRule) -> None:
        self.rule = rule
        #: The last k strange rows.
        self.marks: deque[Mark] = deque(maxlen=rule.k)

    def raised(self, mark: Mark) -> bool:
        """Takes the next strange row in, and says whether k of the last n rows were strange."""
        self.marks.append(mark)
        return self.within(self.rule.n)

    def within(self, rows: int) -> bool:
        """Says whether k of so many rows were strange, up to the last strange one."""
        marks = self.marks
        return len(marks) == self.rule.k and marks[-1].row - marks[0].row < rows

    @property
    def first(self) -> Mark:
        """The first of the strange rows that count."""
        return self.marks[0]
