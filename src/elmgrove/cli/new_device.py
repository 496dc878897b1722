"""What the options of ``elmgrove learn`` say about a device that is new, and how it begins."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elmgrove.algebra import OWN, Basis
from elmgrove.cli.options import chosen_spectrum, chosen_window
from elmgrove.cli.pooled import basis_like
from elmgrove.detector import (
    Choice,
    Detector,
    FalseAlarmRate,
    FixedThreshold,
    MeanSigma,
    Threshold,
)
from elmgrove.errors import BadInput
from elmgrove.federation import Member
from elmgrove.reading import Table


@dataclass(frozen=True)
class NewDevice:
    """What the options say about a new device; each field is the option of that name."""

    name: str | None
    like: list[Path] | None
    scaling: str
    units: int | None
    activation: str
    weights: str
    seed: int
    window: str
    score: str | None
    spectrum: str | None
    ridge: float
    forgetting: float
    rate: float
    confidence: float
    threshold: float | None
    sigma: float | None
    promote_after: int | None
    merged: bool

    def start(self, state: Path, table: Table) -> Member:
        """Makes a device that has learned nothing yet, for rows like these."""
        basis = self._basis(table) if self.given is None else self.given
        if self.given is not None and basis.scaling.kind == OWN:
            basis = basis.in_units_of(table.rows)
        detector = Detector.for_basis(
            basis,
            ridge=self.ridge,
            forgetting=self.forgetting,
            threshold=self._limit(),
            promote_after=self.promote_after,
        )
        return Member(self.name or state.stem, detector, merges=self.merged)

    @cached_property
    def given(self) -> Basis | None:
        """The basis that ``--like`` takes from another file; None without."""
        return basis_like(self.like) if self.like else None

    def window_for(self, table: Table) -> Choice:
        """Says which window these rows get, and why."""
        return chosen_window(self.window, table.rows, chosen_spectrum(self.spectrum))

    def _basis(self, table: Table) -> Basis:
        return Basis.fitted(
            table.rows,
            table.names,
            categories=table.categories,
            scaling=self.scaling,
            units=self.units,
            activation=self.activation,
            weights=self.weights,
            seed=self.seed,
            window=self.window_for(table).window,
            score=self.score,
            spectrum=chosen_spectrum(self.spectrum),
        )

    def _limit(self) -> Threshold:
        if self.threshold is not None and self.sigma is not None:
            raise BadInput("--threshold and --sigma are two ways to the same thing: choose one")
        if self.threshold is not None:
            return FixedThreshold(self.threshold)
        if self.sigma is not None:
            return MeanSigma(self.sigma)
        return FalseAlarmRate(self.rate, self.confidence)
