"""A folder as one table: each file, or folder of files, holds some of its columns; time joins them.

That is how historians and cloud services keep sensors: a file for each.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Categories
from elmgrove.errors import BadInput
from elmgrove.reading.columns import Header, doubts_about, is_label, label_left_out
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import DOUBTED, Table, read_table
from elmgrove.reading.times import SEVERAL, format_time, gaps_in, usual_interval

#: How the names of files end that are read.
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".lp", ".influx", ".parquet", ".gz")
# What a file of one sensor calls it where its own name is the sensor's.
_NAMELESS = "value"

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Component:
    """Some columns of the table, with the times at which they have values, oldest first."""

    name: str
    columns: tuple[str, ...]
    times: Array
    rows: Array
    notes: tuple[str, ...]

    @property
    def usual(self) -> float:
        """The usual interval between two rows, in seconds; without end where few rows tell it."""
        return usual_interval(np.diff(self.times)) or np.inf

    def at(self, times: Array) -> tuple[Array, NDArray[np.bool_]]:
        """The last values at these times, and where they are too old, or there is none."""
        places = np.searchsorted(self.times, times, side="right") - 1
        ages = times - self.times[places]
        return self.rows[places], (places < 0) | (ages > SEVERAL * self.usual)


def read_folder(
    folder: Path | str,
    layout: Layout | None = None,
    *,
    features: Sequence[str] | None = None,
    categories: Categories | None = None,
    skip_bad: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Table:
    """Reads a folder whose files hold columns of one table, and joins them by time.

    A file is a component of the table, and so is a folder in it, whose files follow each other in
    time. Of the components with wanted columns, the one with the longest interval says when there
    are rows: of each other column they have the last value, unless that is older than five of its
    usual intervals; such rows are left out. A column ``value`` that is alone in its component is
    called as that is. The rest is as in ``read_table``, but that all is held in memory, and that
    labels and words can't be read.
    """
    layout, name = layout or Layout(), str(folder)
    labelled = layout.label is not None and "label" not in layout.remembered
    if labelled or layout.categories or categories:
        raise BadInput(f"{name} is a folder: labels and categories are read from single files only")
    components = list(_components(Path(folder), layout, skip_bad, progress))
    named = _names(components)
    header = Header(name, list(named), True, [])
    wanted = [header.cells[place] for place in _wanted(header, layout, features)]
    used = [one for one in components if one in {named[column] for column in wanted}]
    table = _joined(name, used)
    there = [column for column, one in named.items() if one in used]
    rows = table.array[:, [there.index(column) for column in wanted]]
    doubts = [] if features else doubts_about(wanted, rows[:DOUBTED])
    if not (features or layout.columns):
        labels = [is_label(column, values) for column, values in zip(wanted, rows.T, strict=True)]
        if not all(labels):
            doubts += [
                label_left_out(f"column {column!r}", column) for column in compress(wanted, labels)
            ]
            kept = [not one for one in labels]
            wanted, rows = [*compress(wanted, kept)], rows[:, kept]
    return replace(table, names=tuple(wanted), rows=rows, notes=[*_notes(used), *doubts])


def _joined(name: str, components: Sequence[Component]) -> Table:
    """All columns of some components, as a table without names."""
    times = max(components, key=lambda component: component.usual).times
    found = [component.at(times) for component in components]
    old = np.column_stack([missing for _, missing in found])
    kept = ~old.any(axis=1)
    if not kept.any():
        raise BadInput(f"{name}: at no time do all have values: {_spans(components)}")
    skipped = [
        f"{name}, {format_time(times[place])}: {components[column].name} has had no value for long"
        for place, column in zip(np.flatnonzero(~kept)[:1], old[~kept].argmax(axis=1), strict=False)
    ]
    after = np.flatnonzero(np.diff(np.flatnonzero(kept)) > 1) + 1
    return Table(
        None,
        np.concatenate([values for values, _ in found], axis=1)[kept],
        np.arange(1, int(kept.sum()) + 1),
        times[kept],
        skipped=skipped,
        left_out=int((~kept).sum()),
        gaps=sorted({*after.tolist(), *gaps_in(times[kept]).tolist()}),
    )


def _components(
    folder: Path, layout: Layout, skip_bad: bool, progress: Callable[[int], None] | None
) -> Iterator[Component]:
    bare, done, count = replace(layout, columns=(), drop=(), label=None), 0, 0
    for path in sorted(folder.iterdir()):
        files = _files(path)
        tables = list[Table]()
        for file in files:
            tables.append(read_table(file, bare, skip_bad=skip_bad, doubts=False))
            done += file.stat().st_size
            if progress is not None:
                progress(done)
        if tables:
            count += 1
            yield _component(_stem(path), files, tables)
    if not count:
        raise BadInput(f"{folder}: no file in it ends in {', '.join(ENDINGS)}")


def _files(path: Path) -> list[Path]:
    """The files of a component: one, or those of a folder in their order."""
    if path.name.startswith("."):
        return []
    if path.is_dir():
        return [file for one in sorted(path.iterdir()) if one.is_file() for file in _files(one)]
    return [path] if path.name.lower().endswith(ENDINGS) else []


def _stem(path: Path) -> str:
    return path.name if path.is_dir() else path.name.removesuffix(".gz").rpartition(".")[0]


def _component(name: str, files: list[Path], tables: list[Table]) -> Component:
    """The rows of a component's files, one after the other."""
    for file, table in zip(files, tables, strict=True):
        if table.times is None:
            raise BadInput(f"{file}: which column is the time? --time COLUMN or COLUMN=FORMAT")
        if table.names is None or not table.names:
            raise BadInput(f"{file}: no column with a name beside the time; keep other files apart")
        if table.names != tables[0].names:
            raise BadInput(f"{file}: other columns than {files[0]}, which is of the same component")
    order = sorted(tables, key=lambda table: _times(table)[:1].tolist())
    times = np.concatenate([_times(table) for table in order])
    if len(times) < 2 or (np.diff(times) < 0.0).any():
        reason = "fewer than two rows" if len(times) < 2 else "times run back, or files overlap"
        raise BadInput(f"{name}: {reason}, so nothing can be joined to it by time")
    rows = np.concatenate([table.array for table in order])
    notes = dict.fromkeys(note for table in tables for note in table.notes)
    return Component(name, tables[0].names or (), times, rows, tuple(notes))


def _times(table: Table) -> Array:
    assert table.times is not None, "a component has times"
    return table.times


def _names(components: Sequence[Component]) -> dict[str, Component]:
    """Names the columns: by themselves, as their component, or by both where one comes twice."""
    own = [
        (one, one.name if one.columns == (_NAMELESS,) else column)
        for one in components
        for column in one.columns
    ]
    many = Counter(column for _, column in own)
    named = {f"{one.name}.{name}" if many[name] > 1 else name: one for one, name in own}
    if len(named) < len(own):
        raise BadInput(f"two columns are called alike, among {[*named]}: rename one, or its file")
    return named


def _wanted(header: Header, layout: Layout, features: Sequence[str] | None) -> list[int]:
    if features is not None:
        return header.places(features)
    aside = {*header.places(layout.drop)}
    chosen = header.places(layout.columns or header.cells)
    return [place for place in chosen if place not in aside]


def _spans(components: Sequence[Component]) -> str:
    few = [
        f"{component.name} {format_time(component.times[0])} to {format_time(component.times[-1])}"
        for component in components[:3]
    ]
    return ", ".join(few) + (", ..." if len(components) > 3 else "")


def _notes(components: Sequence[Component]) -> list[str]:
    """What there is to tell: once where all components say it, else of which component it is."""
    many = Counter(note for component in components for note in component.notes)
    everywhere = [note for note, count in many.items() if count == len(components)]
    single = [
        f"{component.name}: {note}"
        for component in components
        for note in component.notes
        if note not in everywhere
    ]
    return [*everywhere, *single, f"{len(components)} components were joined by time"]
