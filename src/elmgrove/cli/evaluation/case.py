"""A case to evaluate: which rows are learned, and which labelled ones are judged."""

from dataclasses import dataclass, replace
from pathlib import Path

from elmgrove.algebra import Array, Basis
from elmgrove.cli.lesson import Lesson
from elmgrove.cli.options import note_window, notes
from elmgrove.cli.reading_options import labelled, read
from elmgrove.detector import (
    AlarmRule,
    Detector,
    FalseAlarmRate,
    choose_window,
    require_window,
    tune,
)
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
    """A device, the rows that it and others learn (None: unknown), and those that are judged.

    ``before`` are the rows that are learned together with those among them that are labelled
    anomalous, as a stream would have them.
    """

    member: Member
    learned: Table | None
    before: Table | None
    judged: Table
    about: str


@dataclass(frozen=True)
class Tried:
    """What is to be tried, where it is not as usual or as in the state."""

    rate: float | None = None
    window: int | None = None
    alarm: tuple[int, int] | None = None

    @classmethod
    def of(cls, rate: float | None, window: str, alarm: str | None) -> "Tried":
        """Reads the options."""
        size = None if require_window(window) == "auto" else int(window)
        return cls(rate, size, None if alarm is None else _k_of_n(alarm))

    def tune(self, detector: Detector) -> None:
        """Changes the threshold and the alarm rule of a detector, and notes how."""
        k, n = self.alarm or (None, None)
        for said in tune(detector, rate=self.rate, alarm_k=k, alarm_n=n):
            notes.print(f"Tried with {said}.")


def _k_of_n(text: str) -> tuple[int, int]:
    parts = text.split("/")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise BadInput(f"--alarm: K/N, like 3/5 (an alarm at 3 of 5 rows), not {text!r}")
    return int(parts[0]), int(parts[1])


def case_of(
    data: Path,
    layout: Layout,
    spans: str | None,
    state: Path | None,
    normal: Path | None,
    skip_bad: bool,
    tried: Tried,
) -> Case:
    """Reads what is judged, and learns what is to be learned, or takes a state that has."""
    member = None if state is None else load(state, Member.from_bytes)
    if member is not None and tried.window not in (None, member.detector.window):
        raise BadInput(
            f"--window: {state} has learned windows of {member.detector.window}; without --state, "
            "a new detector learns as you say"
        )
    if member is None:
        whole = read(data, None, layout, skip_bad)
    else:
        layout = layout.after(member.notes.get(LAYOUT, {}))
        whole = read(data, member.detector.basis, layout, skip_bad)
    if not len(whole.rows):
        raise BadInput(f"{data}: no rows to judge")
    whole = labelled(whole, data, spans)
    cut = 0
    before: Table | None = None
    about = ""
    if normal is not None:
        # Which may have labels, and need not.
        known = replace(layout, remembered=layout.remembered | {"label"})
        rows = read(normal, whole, known, skip_bad)
        before = rows if rows.times is None else labelled(rows, normal, spans)
        about = f"the rows of {normal.name}"
    elif member is None:
        cut = round(FIRST * len(whole.rows))
        before, whole = whole.sliced(slice(0, cut)), whole.sliced(slice(cut, None))
        about = f"those labelled normal in the first {100 * FIRST:.0f} % of {data.name}"
    learned = None if before is None else before.normal()
    assert whole.labels is not None, "it was read with its labels"
    require_both(whole.labels, str(spans or layout.label), cut > 0)
    if member is None:
        assert learned is not None
        member = _taught(data, learned, tried)
    else:
        tried.tune(member.detector)
        about = f"{member.name} as it is in {state}"
    return Case(member, learned, before, whole, about)


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


def _taught(data: Path, learned: Table, tried: Tried) -> Member:
    """A new device that has learned these rows, as ``elmgrove learn`` does."""
    if len(learned.rows) < _LEAST:
        raise BadInput(
            f"{len(learned.rows)} normal rows are too few to learn from: give a file of normal "
            "rows (--normal), or a state (--state)"
        )
    rows = learned.rows[:]
    window = tried.window
    if window is None:
        choice = choose_window(rows)
        note_window(choice)
        window = choice.window
    basis = Basis.fitted(
        rows,
        learned.names,
        categories=learned.categories,
        scaling="standard",
        window=window,
    )
    policy = None if tried.rate is None else FalseAlarmRate(tried.rate)
    rule = None if tried.alarm is None else AlarmRule(*tried.alarm)
    detector = Detector.for_basis(basis, threshold=policy, alarm=rule)
    Lesson(detector, learned, gate=False).take()
    return Member(data.stem, detector)
