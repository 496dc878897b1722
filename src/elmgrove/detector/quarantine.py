"""Strange rows, kept aside until somebody says what they are."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Packed
from elmgrove.detector.model import Model
from elmgrove.errors import BadInput, require_whole


class Quarantine:
    """The last ``capacity`` strange rows.

    A gate that never learns what it finds strange would lock out a new normal for ever. So
    strange rows wait here, and are promoted into the model or dropped by the user, or by a
    rule: ``promote_after`` strange rows in a row that would be normal had the others been learned.
    The rule is off by default. It can't tell a new normal from a fault that stays: a sensor
    that is stuck explains itself very well.
    """

    def __init__(self, width: int, capacity: int, promote_after: int | None) -> None:
        self._width = width
        self._rows: deque[Array] = deque(maxlen=require_whole("quarantine", capacity, 1))
        self.promote_after = self.require_promotable(promote_after)
        #: How many strange rows came one after another, up to now; a normal one makes it 0.
        self.run = 0

    @property
    def capacity(self) -> int:
        """The most rows it holds."""
        return self._rows.maxlen or 0

    def require_promotable(self, rows: int | None) -> int | None:
        """Raises ``BadInput`` unless so many rows in a row can wait here; gives their number."""
        if rows is None:
            return None
        rows = require_whole("promote_after", rows, 2)
        if rows > self.capacity:
            raise BadInput(f"promote_after {rows} is more than the {self.capacity} kept")
        return rows

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Array) -> None:
        """Adds a strange row that follows the last one directly."""
        self._rows.append(row.copy())
        self.run += 1

    def clear(self) -> None:
        """Drops all rows."""
        self._rows.clear()
        self.run = 0

    def rows(self, last: int | None = None) -> Array:
        """Lists the rows, oldest first; only the last ones if a number is given."""
        kept = list(self._rows)[-last:] if last else list(self._rows)
        return np.array(kept).reshape(len(kept), self._width)

    def release(self) -> Array:
        """Takes all rows out."""
        rows = self.rows()
        self.clear()
        return rows

    def release_new_normal(self, model: Model, threshold: float) -> Array:
        """Takes those rows of the present run out that make a new normal: none, or most of it.

        The model says which (``new_normal``). Older rows stay, and so do rows of the run that the
        others do not explain: they have nothing to do with it.
        """
        wanted, none = self.promote_after, np.empty((0, self._width))
        if wanted is None or self.run == 0 or self.run % wanted:
            return none
        size = min(self.run, len(self))
        run = self.rows(size)
        normal = model.new_normal(run, threshold)
        if normal.mean() < 0.5:
            return none
        kept = [*self.rows()[:-size], *run[~normal]]
        self.clear()
        self._rows.extend(kept)
        promoted: Array = run[normal]
        return promoted

    # On disk

    def pack(self) -> Packed:
        """Packs its size, its rule and its rows."""
        fields = {
            "quarantine": self.capacity,
            "quarantine_run": self.run,
            "promote_after": self.promote_after,
        }
        return fields, {"quarantine": self.rows()}

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from what was packed; size and rule were given when it was made."""
        if fields["quarantine_run"] < 0:
            raise BadInput(f"quarantine_run can't be {fields['quarantine_run']}")
        for row in arrays["quarantine"]:
            self.add(row)
        self.run = fields["quarantine_run"]
