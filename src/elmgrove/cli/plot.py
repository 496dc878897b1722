"""``elmgrove plot``: draws scores, events and the sensors behind them, and what was expected."""

from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.options import notes
from elmgrove.cli.reading_options import SkipBad, read_for, with_layout
from elmgrove.cli.verdict_file import course_of_verdicts, holds_verdicts
from elmgrove.detector import Course, course_of, course_of_state, draw, save_picture, title
from elmgrove.errors import BadFile, BadInput, require_extra
from elmgrove.federation import Member
from elmgrove.reading import STANDARD_INPUT, Layout
from elmgrove.storage import load


@with_layout
def plot(
    file: Annotated[
        Path,
        typer.Argument(
            help="A state (its last rows and those in quarantine), rows that --state judges, or "
            "verdicts that the agent or elmgrove score wrote as JSON lines.",
            exists=True,
            dir_okay=False,
            allow_dash=True,
        ),
    ],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", "-s", help="The state that judges the rows.", exists=True, dir_okay=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The picture; its ending is its format \\[default: FILE.png, like new.csv.png].",
            dir_okay=False,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Open a window instead.")] = False,
    event: Annotated[
        int | None,
        typer.Option(
            help="Show the sensors around the event of this number \\[default: all rows of a short "
            "file, of a long one what is around the worst event].",
            min=1,
        ),
    ] = None,
    sensors: Annotated[int, typer.Option(help="At most so many sensors.", min=1, max=20)] = 4,
    skip_bad: SkipBad = False,
    *,
    layout: Layout,
) -> None:
    """Draw the score and its threshold over time, events, and the sensors that caused them.

    A sensor is drawn with what was expected of it by all others. Nothing is learned.

    Example: [bold]elmgrove plot new.csv --state fan-1.elm[/]
    """
    if show:
        _require_screen()
    course = _course(file, state, layout, skip_bad)
    figure = draw(course, event=event, most=sensors, window=show)
    if show:
        notes.print(f"{title(course)}.")
        require_extra("matplotlib.pyplot", "plot").show()
    else:
        path = out or Path("plot.png" if str(file) == STANDARD_INPUT else f"{file.name}.png")
        save_picture(figure, path)
        notes.print(f"{title(course)}. Wrote {path}.")


def _course(file: Path, state: Path | None, layout: Layout, skip_bad: bool) -> Course:
    if state is not None:
        member = load(state, Member.from_bytes)
        table = read_for(member, file, layout, skip_bad)
        if not len(table.rows):
            raise BadInput(f"{file}: no rows to draw")
        return course_of(
            member.detector,
            table.rows,
            table.times,
            table.gaps,
            lines=table.lines,
            name=member.name,
        )
    if str(file) == STANDARD_INPUT:
        raise BadInput("rows from standard input need the state that judges them (--state)")
    if holds_verdicts(file):
        return course_of_verdicts(file)
    try:
        member = load(file, Member.from_bytes)
    except BadFile as error:
        raise BadInput(
            f"{file} is no state, and holds no verdicts: to draw rows, give the state that judges "
            "them (--state)"
        ) from error
    return course_of_state(member.detector, member.name)


def _require_screen() -> None:
    """Raises ``BadInput`` where no window can be opened."""
    if require_extra("matplotlib", "plot").get_backend().lower() == "agg":
        raise BadInput("--show needs a screen, and matplotlib finds none: --out writes a file")
