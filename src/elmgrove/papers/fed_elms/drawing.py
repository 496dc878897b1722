"""The pictures of Fed-ELMS, from their numbers."""

from collections.abc import Sequence
from typing import Any

from elmgrove.papers.figure import Numbers


def figure4(found: Numbers, canvas: Any) -> None:
    """A line for each number of hidden units, over the number of rounds."""
    axis = canvas.subplots()
    for name, row in found["accuracy"].items():
        points = {key: value for key, value in row.items() if key.startswith("rounds")}
        axis.plot(list(points), list(points.values()), marker="o", label=name)
    axis.set_ylabel("accuracy, %")
    axis.legend()


def figure5(found: Numbers, canvas: Any) -> None:
    """A line for each way to learn, over hidden units."""
    _over_units(canvas.subplots(), list(found["accuracy"].values()), "units")


def figure6(found: Numbers, canvas: Any) -> None:
    """Table I: accuracy over the stated cost as hidden units, and over the time it took."""
    left, right = canvas.subplots(1, 2, sharey=True)
    rows, times = (list(found[key].values()) for key in ("accuracy", "seconds"))
    _over_units(left, rows, "units")
    for kind in _kinds(rows):
        pairs = [(t[kind], row[kind]) for t, row in zip(times, rows, strict=True)]
        right.plot(*zip(*pairs, strict=True), **_style(kind), label=kind)
    right.set_xscale("log")
    right.set_xlabel("updating time, s")


def _over_units(axis: Any, rows: Sequence[dict[str, Any]], key: str) -> None:
    for kind in _kinds(rows):
        points = [(row[key], row[kind]) for row in rows if row[kind] is not None]
        if points:
            axis.plot(*zip(*points, strict=True), **_style(kind), label=kind)
    axis.set_xlabel("hidden units of the ELM")
    axis.set_ylabel("accuracy, %")
    axis.legend()


def _kinds(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [key for key in rows[0] if key not in ("units", "L_NN")]


def _style(kind: str) -> dict[str, str]:
    return {"marker": "x" if "paper" in kind else "o", "linestyle": ":" if "paper" in kind else "-"}
