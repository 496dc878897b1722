"""The pictures of Fed-ELMS, from their numbers."""

from collections.abc import Sequence
from typing import Any

from elmgrove_papers.figure import Numbers


def figure4(found: Numbers, canvas: Any) -> None:
    """A line for each number of hidden units, over the number of rounds."""
    axis = canvas.subplots()
    for name, row in found["accuracy"].items():
        points = {key: value for key, value in row.items() if key.startswith("rounds")}
        axis.plot(list(points), list(points.values()), marker="o", label=name)
    axis.set_ylabel("accuracy, %")
    axis.legend()


def figure5(found: Numbers, canvas: Any) -> None:
    """A line for each way to learn, over hidden units; a band from the lowest to the highest."""
    axis = canvas.subplots()
    _over_units(axis, list(found["accuracy"].values()), "units")
    low, high = (list(found[key].values()) for key in ("lowest", "highest"))
    for kind in _kinds(low):
        edges = [[row[kind] for row in rows] for rows in (low, high)]
        axis.fill_between([row["units"] for row in low], *edges, alpha=0.2)


def figure6(found: Numbers, canvas: Any) -> None:
    """Table I: accuracy over the stated cost as hidden units, and over the time it took."""
    left, right = canvas.subplots(1, 2, sharey=True)
    rows, times = (list(found[key].values()) for key in ("accuracy", "seconds"))
    _over_units(left, rows, "units")
    for kind in _kinds(rows):
        pairs = [(t[kind], row[kind]) for t, row in zip(times, rows, strict=True)]
        _line(right, kind, pairs)
    right.set_xscale("log")
    right.set_xlabel("updating time, s")


def _over_units(axis: Any, rows: Sequence[dict[str, Any]], key: str) -> None:
    for kind in _kinds(rows):
        _line(axis, kind, [(row[key], row[kind]) for row in rows])
    axis.set_xlabel("hidden units of the ELM")
    axis.set_ylabel("accuracy, %")
    axis.legend()


def _line(axis: Any, kind: str, pairs: Sequence[tuple[Any, Any]]) -> None:
    points = [pair for pair in pairs if None not in pair]
    if points:
        axis.plot(*zip(*points, strict=True), **_style(kind), label=kind)


def _kinds(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The accuracies: neither sizes nor differences."""
    return [key for key in rows[0] if key not in ("units", "L_NN") and "−" not in key]


def _style(kind: str) -> dict[str, str]:
    return {"marker": "x" if "paper" in kind else "o", "linestyle": ":" if "paper" in kind else "-"}
