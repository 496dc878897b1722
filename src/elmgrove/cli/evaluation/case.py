"""A case to evaluate: which rows are learned, and which labelled ones are judged."""

from dataclasses import dataclass, replace
from pathlib import Path

from elmgrove.algebra import Array, Basis
from elmgrove.cli.lesson import Lesson
from elmgrove.cli.options import note_window
from elmgrove.cli.reading_options import labelled, read
from elmgrove.detector import Detector, choose_window
from elmgrove.errors import BadInput
from elmgrove.federation import Member
from elmgrove.reading import LAYOUT, Layout, Table
from elmgrove.storage import load

#: The share of a file that is learned where nothing else is.
FIRST = 0.4
# Fewer rows than this say nothing about what is normal.
_LEAST = 20


@dataclass(frozen=True)
class Case:
    """A device, the rows that it and others learn (None: unknown), and those that are judged."""

    member: Member
    learned: Table | None
    judged: Table
    about: str


def case_of(
    data: Path,
    layout: Layout,
    spans: str | None,
    state: Path | None,
    normal: Path | None,
    skip_bad: bool,
) -> Case:
    """Reads what is judged, and learns what is to be learned, or takes a state that has."""
    member = None if state is None else load(state, Member.from_bytes)
    if member is None:
        whole = read(data, None, layout, skip_bad)
    else:
        layout = layout.after(member.notes.get(LAYOUT, {}))
        whole = read(data, member.detector.basis, layout, skip_bad)
    if not len(whole.rows):
        raise BadInput(f"{data}: no rows to judge")
    whole = labelled(whole, data, spans)
    cut = 0
    if normal is not None:
        # Which may have labels, and need not.
        known = replace(layout, remembered=layout.remembered | {"label"})
        rows = read(normal, whole, known, skip_bad)
        learned: Table | None = (
            rows if rows.times is None else labelled(rows, normal, spans)
        ).normal()
        about = f"the rows of {normal.name}"
    elif member is not None:
        learned, about = None, ""
    else:
        cut = round(FIRST * len(whole.rows))
        learned, whole = whole.sliced(slice(0, cut)).normal(), whole.sliced(slice(cut, None))
        about = f"those labelled normal in the first {100 * FIRST:.0f} % of {data.name}"
    assert whole.labels is not None, "it was read with its labels"
    require_both(whole.labels, str(spans or layout.label), cut > 0)
    if member is not None:
        return Case(member, learned, whole, f"{member.name} as it is in {state}")
    assert learned is not None
    return Case(_taught(data, learned), learned, whole, about)


def require_both(labels: Array, label: str, cut: bool) -> None:
    """Raises ``BadInput`` unless there are both labelled rows and others to tell them from."""
    found = int(labels.sum())
    if 0 < found < len(labels):
        return
    rest = f" after the first {100 * FIRST:.0f} %, which are learned," if cut else ""
    which = "no row" if not found else "every row"
    hint = " (normal is said as 0, no, false, normal, ok or good)" if found else ""
    raise BadInput(
        f"{label}: {which} of {len(labels)}{rest} is labelled anomalous{hint}; to tell rows apart "
        "there must be both"
    )


def _taught(data: Path, learned: Table) -> Member:
    """A new device that has learned these rows, as ``elmgrove learn`` does by default."""
    if len(learned.rows) < _LEAST:
        raise BadInput(
            f"{len(learned.rows)} normal rows are too few to learn from: give a file of normal "
            "rows (--normal), or a state (--state)"
        )
    rows = learned.rows[:]
    choice = choose_window(rows)
    note_window(choice)
    basis = Basis.fitted(
        rows,
        learned.names,
        categories=learned.categories,
        scaling="standard",
        window=choice.window,
    )
    detector = Detector.for_basis(basis)
    Lesson(detector, learned, gate=False).take()
    return Member(data.stem, detector)
