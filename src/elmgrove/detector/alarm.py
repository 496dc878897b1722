"""From single strange rows to alarms that are worth a person's time."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elmgrove.errors import BadInput, require_whole


@dataclass(frozen=True)
class AlarmRule:
    """An alarm when ``k`` of the last ``n`` rows were strange, then none for ``cooldown`` rows.

    The default raises one for each strange row.
    """

    k: int = 1
    n: int = 1
    cooldown: int = 0

    def __post_init__(self) -> None:
        for name, least in (("k", 1), ("n", 1), ("cooldown", 0)):
            object.__setattr__(
                self, name, require_whole(f"the alarm's {name}", getattr(self, name), least)
            )
        if self.k > self.n:
            raise BadInput(f"an alarm needs 1 ≤ k ≤ n, not k = {self.k} and n = {self.n}")


class Alarm:
    """Applies an ``AlarmRule`` to a stream of rows.

    >>> alarm = Alarm(AlarmRule(k=2, n=3, cooldown=2))
    >>> [alarm.raised(strange) for strange in (True, False, True, True, True, True)]
    [False, False, True, False, False, True]
    """

    def __init__(self, rule: AlarmRule) -> None:
        self.rule = rule
        self.recent: deque[bool] = deque(maxlen=rule.n)
        self.quiet = 0

    def set_rule(self, rule: AlarmRule) -> None:
        """Goes on by another rule, with the rows that it remembers."""
        self.rule = rule
        self.recent = deque(self.recent, maxlen=rule.n)
        self.quiet = min(self.quiet, rule.cooldown)

    def raised(self, strange: bool) -> bool:
        """Takes the next row in, and says whether to alarm now."""
        self.recent.append(strange)
        if self.quiet:
            self.quiet -= 1
            return False
        if not strange or sum(self.recent) < self.rule.k:
            return False
        self.quiet = self.rule.cooldown
        return True

    @property
    def fields(self) -> dict[str, Any]:
        """What it remembers of the rows before, as JSON holds it; the rule goes separately."""
        return {"alarm_recent": list(self.recent), "alarm_quiet": self.quiet}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Goes on from ``fields``."""
        if not 0 <= fields["alarm_quiet"] <= self.rule.cooldown:
            raise BadInput(f"alarm_quiet is {fields['alarm_quiet']}, beyond the cool-down")
        self.recent.extend(map(bool, fields["alarm_recent"]))
        self.quiet = fields["alarm_quiet"]
