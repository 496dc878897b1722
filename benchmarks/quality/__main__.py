"""python -m benchmarks.quality: measure, print, draw, and write the page in the docs."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.machine import about
from benchmarks.quality.page import page, with_promises
from benchmarks.quality.picture import draw
from benchmarks.quality.report import print_report
from benchmarks.quality.runs import (
    FULL,
    PROMISES,
    QUICK,
    BucketPart,
    Results,
    done,
    missing,
    names,
    pieces,
)
from benchmarks.quality.targets import judged

DOCS = Path("docs")


def main(
    data: Annotated[
        Path | None,
        typer.Option(envvar="ELMGROVE_DATA", help="The folder with the data sets."),
    ] = None,
    quick: Annotated[bool, typer.Option(help="Few rows and seeds: two minutes.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="A part of the run; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for numbers and picture.")] = Path(
        "bench/quality"
    ),
    docs: Annotated[
        bool,
        typer.Option(
            help="Write docs/quality.md too: a full run does, unless told not to; and one of "
            f"{', '.join(PROMISES)} alone writes their section."
        ),
    ] = True,
    jobs: Annotated[int, typer.Option(help="Processes, of one thread each.", min=1)] = (
        os.cpu_count() or 1
    ),
) -> None:
    """Measures how well Elmgrove and its peers tell rows apart, in one run."""
    console = Console()
    if not console.is_terminal:
        console.width = 170
    if unknown := set(only or ()) - set(names()):
        raise typer.BadParameter(f"{', '.join(unknown)}: there are {', '.join(names())}")
    here = about() | {"quick": quick, "not there": missing(data)}
    work = pieces(QUICK if quick else FULL, data, only or [])
    results = _measured(work, jobs, console)
    reached = judged(results)
    print_report(results, reached, here, console)
    out.mkdir(parents=True, exist_ok=True)
    record = here | {"targets": [one._asdict() for one in reached]} | results.as_json()
    (out / "quality.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    draw(results, out / "quality.png")
    text = page(results, reached, here)
    (out / "quality.md").write_text(text)
    console.print(f"All numbers, a page and a picture: {out}")
    if docs and not quick and not only:
        (DOCS / "quality.md").write_text(text)
        draw(results, DOCS / "quality.png")
        console.print(f"In the docs: {DOCS / 'quality.md'}")
    elif docs and not quick and set(only or ()) == set(PROMISES):
        kept = (DOCS / "quality.md").read_text()
        (DOCS / "quality.md").write_text(with_promises(kept, results, here))
        console.print(f"In the docs: a section of {DOCS / 'quality.md'}")


def _measured(work: list[BucketPart], jobs: int, console: Console) -> Results:
    """Does all work under one bar for each part."""
    results = Results()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bars:
        parts = {piece.part: 0 for piece in work}
        for piece in work:
            parts[piece.part] += 1
        tasks = {part: bars.add_task(part, total=count) for part, count in parts.items()}
        for piece, found in done(work, jobs):
            results.add(found)
            bars.advance(tasks[piece.part])
    return results


if __name__ == "__main__":
    typer.run(main)
