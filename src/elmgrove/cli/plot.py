"""``elmgrove plot``: draws scores, events and the sensors behind them, and what was expected."""

from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.options import SkipBad, file_option, notes, option, read_for, rows_file
from elmgrove.detector.plot import draw, save_picture, title
from elmgrove.detector.replay import Replay
from elmgrove.errors import BadFile, BadInput
from elmgrove.federation.member import Member
from elmgrove.reading.formats import STANDARD_INPUT
from elmgrove.storage.disk import load


def plot(
    file: Annotated[
        Path,
        typer.Argument(
            help="Rows that --state judges, or a state (its last rows and those in quarantine).",
            parser=rows_file,
            metavar="FILE",
        ),
    ],
    state: Annotated[
        Path | None, file_option("The state that judges the rows.", "--state", "-s")
    ] = None,
    out: Annotated[
        Path | None,
        option("The picture, in any format \\[default: FILE.png].", "--out", "-o", dir_okay=False),
    ] = None,
    event: Annotated[
        int | None,
        option("Show the sensors around this event \\[default: the worst, or all rows].", min=1),
    ] = None,
    skip_bad: SkipBad = False,
) -> None:
    """Draw scores, events, and the sensors that caused them.

    A sensor is drawn with what was expected of it by all others. Nothing is learned.

    Example: [bold]elmgrove plot new.csv --state fan-1.elm[/]
    """
    if state is not None:
        member = load(state, Member.from_bytes)
        table = read_for(member, file, skip_bad)
        if not len(table.rows):
            raise BadInput(f"{file}: no rows to draw")
        replay = Replay.of_rows(
            member.detector,
            table.rows,
            table.times,
            table.gaps,
            lines=table.lines,
            name=member.name,
        )
    elif str(file) == STANDARD_INPUT:
        raise BadInput("rows from standard input need the state that judges them (--state)")
    else:
        try:
            member = load(file, Member.from_bytes)
        except BadFile as error:
            raise BadInput(
                f"{error}; to draw rows, give the state that judges them (--state)"
            ) from error
        replay = Replay.of_state(member.detector, member.name)
    path = out or Path("plot.png" if str(file) == STANDARD_INPUT else f"{file.name}.png")
    save_picture(draw(replay, event=event), path)
    notes.print(f"{title(replay)}. Wrote {path}.")
