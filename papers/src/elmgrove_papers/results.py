"""A page with the numbers and pictures of all figures, from the files their commands wrote."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import fill

from elmgrove.errors import BadFile
from elmgrove.storage import write
from elmgrove_papers.catalogue import PAPERS
from elmgrove_papers.figure import Figure, Numbers
from elmgrove_papers.remarks import REMARKS, TITLES
from elmgrove_papers.tables import Grid, Row, grids, text

WIDTH = 100
#: A table's title, and a row of it with its name.
Line = tuple[str, str, Row]
_HEAD = """\
# Results

[Docs](index.md) › Papers and results

Made by `elmgrove paper results`, from what the commands below wrote: change those, not this page.
Each figure has its numbers, the paper's where it prints them ("paper"; most of its figures are
pictures without numbers), and what differs from the paper. Lines of a table that stand above are
not repeated. The seconds are those of the command; trials that were kept from an earlier one are
not in them, but in "processor seconds". What may be concluded is said in `docs/papers.md`.
"""
#: A figure's part of a page: its title, what was run, a remark, and the rest: what came of it.
_SECTION = re.compile(
    r"^### [^\n]+\n\n(?P<run>`elmgrove paper (?P<name>\S+ [^\s`]+(?: --tune)?)[^\n]*)"
    r"\n\n[^\n]+(?:\n[^\n]+)*\n(?P<found>.*?)(?=^##|\Z)",
    re.MULTILINE | re.DOTALL,
)


def publish(folder: Path, page: Path) -> None:
    """Writes the page, from PAPER/FIGURE.json; of a figure without a file it keeps what it has.

    So a page is brought up to date figure by figure. What it has of none is not run. Its
    pictures are copied to a folder beside it, which is called as the page is: PAGE/PAPER. Nothing
    is written if a file can't be read.
    """
    blocks, pictures, known = [_HEAD], dict[Path, bytes](), _known(page)
    for paper, figures in PAPERS.items():
        blocks.append(f"## {TITLES[paper]}\n")
        shown: list[Line] = []
        for command, figure in _listed(paper, figures):
            path = folder / paper / f"{figure.name}.json"
            blocks += _figure(command, figure, REMARKS[paper, figure.name], path, shown, known)
            picture = path.with_suffix(".png")
            if path.exists() and picture.exists():
                place = Path(page.stem, paper, picture.name)
                blocks.append(f"![{figure.title}]({place.as_posix()})\n")
                pictures[page.parent / place] = picture.read_bytes()
    for place, content in pictures.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        write(place, content)
    write(page, "\n".join(blocks).encode())


def _listed(paper: str, figures: Iterable[Figure]) -> Iterator[tuple[str, Figure]]:
    """What a command is given for each figure; how values are tuned stands behind the first."""
    tunings = set[str]()
    for figure in figures:
        yield f"{paper} {figure.name}", figure
        if figure.tuning and figure.tuning.name not in tunings:
            tunings.add(figure.tuning.name)
            yield f"{paper} {figure.name} --tune", figure.tuning


def _known(page: Path) -> dict[str, tuple[str, str]]:
    """What the page has of each figure: how it was run, and what came of it."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    sections = _SECTION.finditer(text)
    return {one["name"]: (one["run"], one["found"].strip()) for one in sections}


def _figure(
    command: str,
    figure: Figure,
    said: str,
    path: Path,
    shown: list[Line],
    known: dict[str, tuple[str, str]],
) -> Iterator[str]:
    yield f"### {figure.title}\n"
    remark = fill(said, WIDTH) + "\n"
    if not path.exists():
        ran, numbers = known.get(command, (f"`elmgrove paper {command}`: not run.", ""))
        yield f"{ran}\n\n{remark}"
        if numbers:
            yield f"{numbers}\n"
        return
    found = _read(path)
    made = found.pop("made", {})
    size = "".join(f" --{key} {made[key]}" for key in ("trials", "networks") if key in made)
    yield f"`elmgrove paper {command}{size}`, {_made(made)}\n\n{remark}"
    for grid in grids(found):
        if not grid.title:
            yield fill(_values(grid.rows[""]), WIDTH) + "\n"
            continue
        # Some figures are one part of the same numbers each.
        lines = [(grid.title, name, row) for name, row in grid.rows.items()]
        new = {name: row for name, row in grid.rows.items() if (grid.title, name, row) not in shown}
        if new:
            yield "\n".join(_table(Grid(grid.title, new))) + "\n"
        shown += lines


def _read(path: Path) -> Numbers:
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise BadFile(f"{path} holds no numbers of a figure ({error})") from error
    if not isinstance(found, dict):
        raise BadFile(f"{path} holds no numbers of a figure")
    return found


def _made(made: Numbers) -> str:
    """When, how long, from which seed and where."""
    if not made:
        return "run before figures said when."
    small = "**quick run**, " if made["quick"] else ""
    took = f"{text(made['seconds'])} s, seed {made['seed']}"
    where = "; ".join(made[key] for key in ("machine", "software") if key in made)
    return f"{small}{made['date']}, {took}; {where}."


def _values(row: Row) -> str:
    return "; ".join(f"{text(name)}: {text(value)}" for name, value in row.items())


def _table(grid: Grid) -> Iterator[str]:
    yield f"| {' | '.join([grid.title, *map(text, grid.columns)])} |"
    yield "|---" * (len(grid.columns) + 1) + "|"
    for line in grid.lines():
        yield f"| {' | '.join(line)} |"
