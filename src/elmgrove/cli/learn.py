"""``elmgrove learn``: rows from a file into a device's state."""

from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli import settings
from elmgrove.cli.options import Data, SkipBad, State, notes, read, tracked
from elmgrove.errors import BadInput
from elmgrove.federation import Member
from elmgrove.storage import Table, load, locked, save

# A row of ``--gate`` takes some 100 µs, so a block of these some 0.1 s.
_BLOCK = 1000


def learn(
    context: typer.Context,
    data: Data,
    state: State,
    gate: Annotated[
        bool, typer.Option("--gate", help="Leave out rows that the state finds strange.")
    ] = False,
    skip_bad: SkipBad = False,
    name: settings.Name = None,
    like: settings.Like = None,
    drop: settings.Drop = None,
    scaling: settings.ScalingKind = "standard",
    units: settings.Units = None,
    activation: settings.Activation = "identity",
    weights: settings.Weights = "uniform",
    seed: settings.Seed = 0,
    ridge: settings.Ridge = 1e-3,
    forgetting: settings.Forgetting = 1.0,
    rate: settings.Rate = 0.01,
    threshold: settings.Fixed = None,
    sigma: settings.Sigma = None,
) -> None:
    """Learn what normal rows look like; makes the state, or goes on with it.

    Example: [bold]elmgrove learn normal.csv --state fan-1.elm[/]
    """
    chosen = settings.NewDevice(
        name, like, drop, scaling, units, activation, weights, seed, ridge, forgetting, rate,
        threshold, sigma,
    )  # fmt: skip
    with locked(state):
        if state.exists():
            settings.refuse_settings(
                context, f"{state} exists and keeps the settings it was made with"
            )
            member = load(state, Member.from_bytes)
            table = read(data, member.detector.basis, (), skip_bad)
        else:
            if like is not None:
                settings.refuse_settings(
                    context,
                    f"--like takes this from {like}",
                    ("name", "like", "ridge", "forgetting", "rate", "threshold", "sigma"),
                )
            table = read(data, chosen.given, drop or (), skip_bad)
            if len(table.rows) == 0:
                raise BadInput(f"{data}: no rows to learn from")
            member = chosen.start(state, table)
        learned = _gated(member, table) if gate else _trusted(member, table)
        member.detector.score_many(table.rows[:1])  # a model without a solution is not saved
        save(state, member)
        _report(member, state, learned, len(table.rows) - learned)


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
