"""A basis from several files: one scaling for the rows of all, one window, and whether they fit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.scaling import OWN, Levels, Scaling
from elmgrove.algebra.summing import MomentSums
from elmgrove.cli.options import chosen_spectrum, chosen_window, notes, read
from elmgrove.detector.windows import Choice
from elmgrove.errors import BadInput
from elmgrove.federation.charter import learned_of
from elmgrove.federation.similarity import compare
from elmgrove.reading.formats import blocks_of
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import Table
from elmgrove.storage.disk import load


def basis_like(paths: Sequence[Path]) -> Basis:
    """Takes the basis from a state or evidence; of several, with a scaling for the rows of all.

    What they learned tells it: no row of theirs is needed. Layer and columns must be the same.
    """
    learned = [load(path, learned_of) for path in paths]
    first = learned[0].basis
    kind = first.scaling.kind
    for one in learned[1:]:
        # The numbers of a scaling may differ where they are pooled, its kind may not.
        pooled = one.basis.scaling.kind == kind not in ("none", OWN)
        first.require(replace(one.basis, scaling=first.scaling) if pooled else one.basis)
    if len(learned) == 1 or kind in ("none", OWN):
        return first
    levels = [one.levels for one in learned if isinstance(one, Moments) and one.count > 0.0]
    if len(levels) < len(learned):
        raise BadInput(
            "a scaling is pooled from what each file learned by distance: by loss sums do not tell "
            "where columns lie, nor does a state without rows; use federation create --data"
        )
    together = Levels.together(levels)
    scaling = Scaling.of(kind, together)
    notes.print(
        f"Scaling pooled over the {together.count:.0f} rows behind {len(paths)} files. To merge, "
        "their devices must learn again in it."
    )
    return replace(first, scaling=scaling)


class Pool:
    """The rows of one or several files, each of a machine of its own, for a federation's basis."""

    def __init__(self, paths: Sequence[Path], layout: Layout, spectrum: str | None) -> None:
        self._paths = paths
        self._spectrum = chosen_spectrum(spectrum)
        self._tables = list[Table]()
        for path in paths:
            # By name: another file may have its columns in another order.
            like = self._tables[0] if self._tables else None
            table = read(path, like, layout)
            if len(table.rows) == 0:
                raise BadInput(f"{path}: no rows to take columns and scaling from")
            self._tables.append(table)

    def window(self, stated: str) -> Choice:
        """Chooses the window that most rows ask for, and says which files ask for another."""
        choices = [chosen_window(stated, one.rows, self._spectrum) for one in self._tables]
        rows = dict[int, int]()
        for choice, table in zip(choices, self._tables, strict=True):
            rows[choice.window] = rows.get(choice.window, 0) + len(table.rows)
        best = max(rows, key=lambda window: rows[window])
        chosen = next(choice for choice in choices if choice.window == best)
        others = [
            f"; {path} alone would have {choice.window} ({choice.reason})"
            for path, choice in zip(self._paths, choices, strict=True)
            if choice.window != best
        ]
        return Choice(best, chosen.reason + "".join(others))

    def basis(self, window: int, **settings: Any) -> Basis:
        """Makes the basis for rows like those of all files together."""
        return Basis.pooled(
            [table.rows for table in self._tables],
            self._tables[0].names,
            categories=self._tables[0].categories,
            window=window,
            spectrum=self._spectrum,
            **settings,
        )

    def warn(self, basis: Basis, *, merges: bool) -> None:
        """Notes which files are of another kind of machine than the others; not in own units."""
        if len(self._tables) == 1 or basis.scaling.kind == OWN:
            return
        plain = self.basis(1, scaling=basis.scaling.kind)
        sums = [_sums(plain, table) for table in self._tables]
        two = len(sums) == 2
        for place, own in enumerate(sums[: 1 if two else None]):
            rest = own.aligned(Evidence.sum(sums[:place] + sums[place + 1 :]))
            found = compare(own, rest, self._paths[1].name if two else None)
            if not found.alike:
                notes.print(f"{self._paths[place].name}: {found.warning(basis, merges=merges)}.")


def _sums(basis: Basis, table: Table) -> Moments:
    rows = table.rows if basis.spectrum is None else basis.spectrum.rows_of(table.rows)
    sums = MomentSums(basis, 1.0, np.dtype(np.float64))
    for block in blocks_of(rows):
        sums.add_many(basis.scaling(block))
    return sums.evidence
