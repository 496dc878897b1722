"""The settings of a new device: options of ``elmgrove learn``, and the member they make."""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from elmgrove.algebra import ACTIVATIONS, DISTRIBUTIONS, SCALINGS, Basis
from elmgrove.detector import Detector, FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.errors import BadInput
from elmgrove.federation import Member, basis_of
from elmgrove.storage import Table, load


def _option(text: str, **more: Any) -> Any:
    return typer.Option(help=text, rich_help_panel="For a new state", **more)


def _one_of(names: Any) -> str:
    return ", ".join(names)


Name = Annotated[str | None, _option("The device's name \\[default: the state file's].")]
Like = Annotated[
    Path | None,
    _option(
        "Take layer, columns and scaling from this state or evidence file: then the two merge.",
        exists=True,
        dir_okay=False,
    ),
]
Drop = Annotated[list[str] | None, _option("Leave this column out (repeatable).")]
ScalingKind = Annotated[str, _option(f"{_one_of(SCALINGS)}, fitted to this file.")]
Units = Annotated[
    int | None,
    _option("Hidden units \\[default: a quarter of the columns, half of few].", min=1),
]
Activation = Annotated[str, _option(f"{_one_of(ACTIVATIONS)}.")]
Weights = Annotated[str, _option(f"{_one_of(DISTRIBUTIONS)}.")]
Seed = Annotated[int, _option("Seed of the hidden layer.", min=0)]
Ridge = Annotated[float, _option("Regularization.", min=0.0)]
Forgetting = Annotated[float, _option("What a row still counts after the next; 1 = as much.")]
Rate = Annotated[float, _option("The share of normal rows that may be flagged.")]
Fixed = Annotated[float | None, _option("A fixed threshold on the score instead of a rate.")]
Sigma = Annotated[float | None, _option("Mean plus so many standard deviations instead.")]


@dataclass(frozen=True)
class NewDevice:
    """What the options say; each field is the option of that name."""

    name: str | None
    like: Path | None
    drop: list[str] | None
    scaling: str
    units: int | None
    activation: str
    weights: str
    seed: int
    ridge: float
    forgetting: float
    rate: float
    threshold: float | None
    sigma: float | None

    def start(self, state: Path, table: Table) -> Member:
        """A device that has learned nothing yet, made for rows like these."""
        basis = self.given or self._basis(table)
        detector = Detector(
            basis.layer,
            features=basis.features,
            scaling=basis.scaling,
            ridge=self.ridge,
            forgetting=self.forgetting,
            threshold=self._policy(),
        )
        return Member(self.name or state.stem, detector)

    @cached_property
    def given(self) -> Basis | None:
        """The basis that another file fixes."""
        return None if self.like is None else load(self.like, basis_of)

    def _basis(self, table: Table) -> Basis:
        return Basis.fitted(
            table.rows,
            table.names,
            scaling=self.scaling,
            units=self.units,
            activation=self.activation,
            weights=self.weights,
            seed=self.seed,
        )

    def _policy(self) -> Threshold:
        if self.threshold is not None and self.sigma is not None:
            raise BadInput("--threshold and --sigma are two ways to the same thing: choose one")
        if self.threshold is not None:
            return FixedThreshold(self.threshold)
        return FalseAlarmRate(self.rate) if self.sigma is None else MeanSigma(self.sigma)


def refuse_settings(context: typer.Context, because: str, allowed: tuple[str, ...] = ()) -> None:
    """An error if any option for a new state was given where it would change nothing."""
    sources = {
        field.name: context.get_parameter_source(field.name)
        for field in fields(NewDevice)
        if field.name not in allowed
    }
    given = [f"--{name}" for name, source in sources.items() if source and _typed(source.name)]
    if given:
        raise BadInput(f"{', '.join(given)}: {because}")


def _typed(source: str) -> bool:
    # By name: releases of Typer bring the enumeration from different packages.
    return source == "COMMANDLINE"
