"""``elmgrove learn``: learns the rows of a file, into a device's state that is there or new."""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated

import typer

from elmgrove.algebra import Basis
from elmgrove.cli.options import (
    LAYER_OPTIONS,
    Activation,
    Data,
    Drop,
    ScalingName,
    Seed,
    SkipBad,
    State,
    Units,
    Weights,
    new_state_option,
    notes,
    read,
    require_not_given,
    tracked,
)
from elmgrove.detector import Detector, FalseAlarmRate, FixedThreshold, MeanSigma, Threshold
from elmgrove.errors import BadInput
from elmgrove.federation import Member, basis_of
from elmgrove.storage import Table, load, locked, save

# A row of ``--gate`` takes some 100 µs, so a block of these some 0.1 s.
_BLOCK = 1000

Name = Annotated[str | None, new_state_option("The device's name \\[default: the state file's].")]
Like = Annotated[
    Path | None,
    new_state_option(
        "Take layer, columns and scaling from this state or evidence file, so that the two can "
        "merge.",
        exists=True,
        dir_okay=False,
    ),
]
Ridge = Annotated[float, new_state_option("Regularization.", min=0.0)]
Forgetting = Annotated[
    float, new_state_option("Weight that a row keeps with each later row; 1 = forget nothing.")
]
Rate = Annotated[float, new_state_option("The share of normal rows that may be flagged.")]
Fixed = Annotated[
    float | None, new_state_option("A fixed threshold on the score instead of a rate.")
]
Sigma = Annotated[
    float | None, new_state_option("Mean plus so many standard deviations instead of a rate.")
]


def learn(
    context: typer.Context,
    data: Data,
    state: State,
    gate: Annotated[
        bool, typer.Option("--gate", help="Leave out rows that the state finds strange.")
    ] = False,
    skip_bad: SkipBad = False,
    name: Name = None,
    like: Like = None,
    drop: Drop = None,
    scaling: ScalingName = "standard",
    units: Units = None,
    activation: Activation = "identity",
    weights: Weights = "uniform",
    seed: Seed = 0,
    ridge: Ridge = 1e-3,
    forgetting: Forgetting = 1.0,
    rate: Rate = 0.01,
    threshold: Fixed = None,
    sigma: Sigma = None,
) -> None:
    """Learn what normal rows look like, and make the state or go on with it.

    Example: [bold]elmgrove learn normal.csv --state fan-1.elm[/]
    """
    new = NewDevice(
        name=name,
        like=like,
        drop=drop,
        scaling=scaling,
        units=units,
        activation=activation,
        weights=weights,
        seed=seed,
        ridge=ridge,
        forgetting=forgetting,
        rate=rate,
        threshold=threshold,
        sigma=sigma,
    )
    with locked(state):
        if state.exists():
            kept = f"{state} exists and keeps the settings it was made with"
            require_not_given(context, [one.name for one in fields(NewDevice)], kept)
            member = load(state, Member.from_bytes)
            table = read(data, member.detector.basis, (), skip_bad)
        else:
            if like is not None:
                require_not_given(context, LAYER_OPTIONS, f"--like takes this from {like}")
            table = read(data, new.given, drop or (), skip_bad)
            if len(table.rows) == 0:
                raise BadInput(f"{data}: no rows to learn from")
            member = new.start(state, table)
        learned = _gated(member, table) if gate else _trusted(member, table)
        require_solution(member, table)
        save(state, member)
        _report(member, state, learned, len(table.rows) - learned)


def require_solution(member: Member, table: Table) -> None:
    """Raises ``SingularSystem`` if the model has no solution and so can't score a row."""
    member.detector.score_many(table.rows[:1])


@dataclass(frozen=True)
class NewDevice:
    """What the options say about a new device; each field is the option of that name."""

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
        """Makes a device that has learned nothing yet, for rows like these."""
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
        """The basis that ``--like`` takes from another file; None without."""
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


def _trusted(member: Member, table: Table) -> int:
    member.detector.learn_many(table.rows)
    return len(table.rows)


def _gated(member: Member, table: Table) -> int:
    learned = 0
    for start in tracked(range(0, len(table.rows), _BLOCK), "Learning"):
        learned += sum(member.detector.observe(x).learned for x in table.rows[start:][:_BLOCK])
    return learned


def _report(member: Member, state: Path, learned: int, strange: int) -> None:
    detector = member.detector
    left_out = f" ({strange} strange ones left out)" if strange else ""
    notes.print(f"{member.name}: learned {learned} rows{left_out}, {detector.learned} in all.")
    if detector.state == "watching":
        notes.print(f"Watching: scores above {detector.threshold:.4g} are strange. Saved {state}.")
    else:
        wanted = max(detector.warmup, detector.policy.minimum)
        notes.print(f"Still learning: no alarms before {wanted} rows. Saved {state}.")
