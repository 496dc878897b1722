"""What can be said of a federation in rounds (``federate``)."""

from pathlib import Path
from typing import Annotated

import typer

from elmgrove.algebra import ACTIVATIONS, DISTRIBUTIONS
from elmgrove.cli.target_choice import SHARE, Predict
from elmgrove.rounds import RuleName

RuleOption = Annotated[
    RuleName,
    typer.Option(
        "--rule",
        help="The sum (E²LM), averages (Fed-ELMS), a sum for each group (MLMG), or one in "
        "which all classes of a target count alike (balanced).",
    ),
]
RoundsOption = Annotated[
    int,
    typer.Option("--rounds", help="Rounds; each brings an equal part of a client's rows.", min=1),
]
Fraction = Annotated[
    float, typer.Option(help="The share of clients drawn each round.", min=0.0, max=1.0)
]
Bits = Annotated[
    int, typer.Option(help="Bits of a number in the messages of --rule fedavg: 64, or 8 (compact).")
]
Groups = Annotated[
    int | None,
    typer.Option(
        help="Groups that --rule groups makes, if there are as many patterns "
        "\\[default: what it finds].",
        min=1,
    ),
]
Distance = Annotated[
    str, typer.Option(help="How --rule groups compares patterns: evidence or parameters.")
]
Seed = Annotated[int, typer.Option(help="Seed of layer, split and draw.", min=0)]
Units = Annotated[
    int | None,
    typer.Option(
        help="Hidden units \\[default: a quarter of the columns, half of fewer than 16, at "
        "most 128; for a target a quarter of the rows, at most 256].",
        min=1,
    ),
]
Activation = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(ACTIVATIONS)} \\[default: identity; for a target relu]."),
]
Weights = Annotated[
    str, typer.Option(help=f"How the layer's weights are drawn: {', '.join(DISTRIBUTIONS)}.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target", help="The column to predict, a class or a number \\[default: none, detectors]."
    ),
]
PredictOption = Annotated[
    Predict | None,
    typer.Option(
        "--predict",
        help="What the target is predicted as \\[default: classes if it holds words or few "
        "whole numbers; says which].",
    ),
]
TestFile = Annotated[
    Path | None,
    typer.Option(
        "--test",
        help="Rows on which the server tests the model after every round.",
        exists=True,
        dir_okay=False,
    ),
]
TestShare = Annotated[
    float | None,
    typer.Option(
        help=f"Keep this share of the rows for the test \\[default: {SHARE:g} for a target "
        "without --test].",
        min=0.0,
        max=1.0,
    ),
]
