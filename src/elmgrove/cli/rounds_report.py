"""What a federation in rounds is reported as: a table, sentences, and a picture of the tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra import Basis
from elmgrove.cli.options import notes
from elmgrove.detector import save_picture
from elmgrove.errors import require_extra
from elmgrove.federation import Merged
from elmgrove.rounds import Delivery, Exam, Plan, RoundReport, Target

#: Clients that are named where many were left out for the same reason.
_NAMED = 5
# Okabe and Ito's blue and vermilion, which colour-blind people can tell apart.
_MODEL, _BASELINE = "#0072B2", "#D55E00"


@dataclass(frozen=True)
class Marks:
    """How the results of an exam are told: by what, in whose units, and beside which baseline.

    Classes are told by the share that is right, numbers by the root of the mean squared error in
    their own units, and a detector's rows by the mean squared error of scaled columns.
    """

    target: Target | None
    exam: Exam
    basis: Basis

    @property
    def by_class(self) -> bool:
        """Says whether classes are told."""
        return self.target is not None and bool(self.target.classes)

    @property
    def heading(self) -> str:
        """The name of what is measured, for a table."""
        return "accuracy" if self.by_class else "test error"

    @property
    def axis(self) -> str:
        """The name of what is measured, for a picture."""
        if self.by_class:
            return "accuracy on the test rows (%)"
        if self.target is not None:
            return f"root mean square error of {self.target.column}, test rows"
        return "mean squared error of test rows (scaled)"

    def number(self, value: float) -> float:
        """Gives a result as it is drawn: in per cent, or in the target's own units."""
        if self.by_class:
            return 100.0 * value
        return value if self.target is None else float(np.sqrt(value)) * self.target.unit

    def told(self, value: float) -> str:
        """Writes a result for people."""
        return f"{self.number(value):.1f} %" if self.by_class else f"{self.number(value):.4g}"

    @property
    def baseline(self) -> float:
        """What the best constant answer reaches in this exam."""
        return self.exam.baseline(self.basis)

    def sentence(self, value: float) -> str:
        """Says how a model does, beside what needs no model."""
        rows, told, plain = len(self.exam.X), self.told(value), self.told(self.baseline)
        if self.exam.classes:
            assert self.exam.T is not None
            common = self.exam.classes[int(self.exam.T.mean(axis=0).argmax())]
            return f"{told} of {rows} rows are told right; always {common!r} would be {plain}."
        if self.target is not None:
            return (
                f"{self.target.column} of {rows} rows is off by {told} (root mean square); "
                f"always their mean would be off by {plain}."
            )
        return (
            f"{rows} rows are explained with a mean squared error of {told}; their mean "
            f"alone would leave {plain}."
        )


def show_rounds(
    plan: Plan,
    reports: Sequence[RoundReport],
    merged: Merged,
    delivery: Delivery,
    marks: Marks | None,
) -> None:
    """Prints what happened in each round, who was left out and why, and what came of it."""
    Console().print(_grid(reports, marks))
    for reason, names in _left_out(reports, delivery.left_out).items():
        rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        notes.print(f"Left out {', '.join(names[:_NAMED])}{rest}: {reason}")
    of = "clients" if plan.targets else "patterns"
    found = f" {len(merged.parts)} groups of {of} were found." if merged.apart else ""
    out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    out.print(
        f"{merged.devices} of {len(plan.rows)} clients took part.{found} What each got back ("
        f"{delivery.down:,} bytes in all) explains the clients' rows with a mean squared error "
        f"of {delivery.loss:.4g}."
    )
    last = reports[-1].evaluation
    if marks is not None and last is not None:
        for place, value in enumerate(last.groups):
            rows = f"{merged.parts[place].count:,.0f} rows"
            out.print(f"Test of group {place + 1}, of {rows}: {marks.told(value)}")
        mean = "groups, in the mean weighted by rows" if last.groups else "global model"
        out.print(f"Test of the {mean}: {marks.sentence(last.value)}")


def _grid(reports: Sequence[RoundReport], marks: Marks | None) -> Grid:
    """Makes a table with one line for each round."""
    headings = ("round", "asked", "answered", "left out", "bytes down", "bytes up", "seconds")
    # Without frames between them, all columns have room on a narrow screen.
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in (*headings, *([] if marks is None else [marks.heading])):
        grid.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        clients = (len(report.asked), len(report.answered), len(report.left_out))
        cells = [str(report.number), *map(str, clients), f"{report.down:,}", f"{report.up:,}"]
        cells.append(f"{report.seconds:.2f}")
        if marks is not None:
            cells.append("-" if report.evaluation is None else marks.told(report.evaluation.value))
        grid.add_row(*cells)
    return grid


def _left_out(
    reports: Sequence[RoundReport], at_the_end: Mapping[str, str]
) -> dict[str, list[str]]:
    """Names by when and why they were left out; of each client the last time only."""
    last: dict[str, str] = {}
    for report in reports:
        at = f"in round {report.number}"
        last |= {name: f"{at}, {reason}" for name, reason in report.left_out.items()}
    last |= {name: f"at the end, {reason}" for name, reason in at_the_end.items()}
    found: dict[str, list[str]] = {}
    for name in sorted(last):
        found.setdefault(last[name], []).append(name)
    return found


def draw_rounds(reports: Sequence[RoundReport], marks: Marks, title: str, path: Path) -> None:
    """Draws how the global model did in the test after each round, beside the baseline."""
    figure = require_extra("matplotlib.figure", "plot").Figure(
        figsize=(7.0, 4.0), layout="constrained"
    )
    axes = figure.subplots()
    tested = [(one.number, one.evaluation) for one in reports if one.evaluation is not None]
    numbers = [number for number, _ in tested]
    values = [marks.number(found.value) for _, found in tested]
    axes.plot(numbers, values, "o-", color=_MODEL, label="global model")
    plain = "commonest class" if marks.exam.classes else "mean of the test rows"
    axes.axhline(
        marks.number(marks.baseline), color=_BASELINE, ls="--", lw=1.2, label=f"always the {plain}"
    )
    axes.set(xlabel="round", ylabel=marks.axis, title=title, ylim=(0.0, _top(marks, values)))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.25, lw=0.5)
    axes.legend(fontsize=8)
    save_picture(figure, path)


def _top(marks: Marks, values: Sequence[float]) -> float:
    return 102.0 if marks.exam.classes else 1.1 * max(*values, marks.number(marks.baseline))
