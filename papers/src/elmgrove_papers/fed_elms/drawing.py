"""The pictures of Fed-ELMS, from their numbers."""

from collections.abc import Sequence
from typing import Any

from elmgrove_papers.figure import Numbers
from elmgrove_papers.pictures import legend

# What keys of Figure 4 begin with.
_ROUNDS = "rounds: "


def figure4(found: Numbers, canvas: Any) -> None:
    """Draws a line for each number of hidden units, over the number of rounds."""
    axis = canvas.subplots()
    for name, row in found["accuracy"].items():
        points = {
            int(key.removeprefix(_ROUNDS)): value
            for key, value in row.items()
            if key.startswith(_ROUNDS)
        }
        axis.plot(list(points), list(points.values()), marker="o", label=name)
    axis.set(xlabel="rounds that a client's rows are split into", ylabel="accuracy, %")
    axis.set_xscale("log")
    axis.set_xticks(list(points), list(points))
    axis.minorticks_off()
    legend(canvas, axis)


def figure5(found: Numbers, canvas: Any) -> None:
    """Draws a line for each way to learn, over hidden units, in a band from lowest to highest."""
    axis = canvas.subplots()
    _over_units(axis, list(found["accuracy"].values()), "units")
    legend(canvas, axis)
    low, high = (list(found[key].values()) for key in ("lowest", "highest"))
    for way in _ways(low):
        edges = [[row[way] for row in rows] for rows in (low, high)]
        axis.fill_between([row["units"] for row in low], *edges, alpha=0.2)


def figure6(found: Numbers, canvas: Any) -> None:
    """Draws Table I: accuracy over the stated cost as hidden units, and over the time it took."""
    left, right = canvas.subplots(1, 2, sharey=True)
    rows, times = (list(found[key].values()) for key in ("accuracy", "seconds"))
    _over_units(left, rows, "units")
    for way in _ways(rows):
        pairs = [(t[way], row[way]) for t, row in zip(times, rows, strict=True)]
        _line(right, way, pairs)
    right.set(xscale="log", xlabel="processor time of the update, s")
    legend(canvas, left)


def imbalanced(found: Numbers, canvas: Any) -> None:
    """Draws each way to learn over the number of clients, in a band from lowest to highest.

    Left the test rows as they are, with digits about equally frequent; right as if each were as
    frequent as among the clients' rows.
    """
    axes = canvas.subplots(1, 2, sharey=True)
    measures = {
        "accuracy": "test rows as they are: digits about alike",
        "accuracy at learned frequencies": "digits as frequent as in the clients' rows",
    }
    for axis, (measure, title) in zip(axes, measures.items(), strict=True):
        mean, low, high = (
            list(found[f"{measure}{name}"].values()) for name in ("", ", lowest", ", highest")
        )
        clients = [row["clients"] for row in mean]
        for way in _ways(mean):
            _line(axis, way, [(row["clients"], row[way]) for row in mean])
            axis.fill_between(
                clients, *([row[way] for row in rows] for rows in (low, high)), alpha=0.15
            )
        axis.set_xscale("log")
        axis.set_xticks(clients, list(map(str, clients)))
        axis.minorticks_off()
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("clients")
    axes[0].set_ylabel("accuracy, %")
    canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


def _over_units(axis: Any, rows: Sequence[dict[str, Any]], key: str) -> None:
    for way in _ways(rows):
        _line(axis, way, [(row[key], row[way]) for row in rows])
    axis.set_xlabel("hidden units of the ELM")
    axis.set_ylabel("accuracy, %")


def _line(axis: Any, way: str, pairs: Sequence[tuple[Any, Any]]) -> None:
    points = [pair for pair in pairs if None not in pair]
    if points:
        axis.plot(*zip(*points, strict=True), **_style(way), label=way)


def _ways(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The accuracies: neither sizes nor differences."""
    return [key for key in rows[0] if key not in ("units", "L_NN", "clients") and "−" not in key]


def _style(way: str) -> dict[str, Any]:
    if "paper" in way:
        return {"marker": "x", "linestyle": ":"}
    # Wide, since exact merging lies on it.
    wide = {"linewidth": 6, "alpha": 0.4} if way == "centralized, clients' rows" else {}
    return {"marker": "o", "linestyle": "-"} | wide
