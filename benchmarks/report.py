"""The measured numbers as tables."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.own import BULK_ROWS, CONTRIBUTIONS, GEMM_SIZE
from benchmarks.results import Key, Results
from benchmarks.targets import (
    ONE_ROW,
    ROWS_OF,
    TARGETS,
    THREADS,
    UNITS,
    VERDICT_TARGETS,
    Target,
    gemm_share,
    row_time,
)
from benchmarks.verdicts import SHAPES, TOGETHER

# Each of Elmgrove's calls, with the peers that do the same.
_SAME_WORK = {
    "OSELM.learn_one": ("literal learn", "careful learn", "pyoselm learn", "PyTorch learn"),
    "Detector.learn_one": ("HalfSpaceTrees learn",),
    "Detector.score_one": ("literal score", "pyoselm score", "PyTorch score"),
    "Detector.score_one again": ("HalfSpaceTrees score",),
    "Detector.observe": (
        "Detector.observe after merging",
        "HalfSpaceTrees both, from an array",
        "HalfSpaceTrees both",
    ),
}
_LEGEND = """
literal: equation (12) in NumPy as it is written; careful: equation (12) grouped by hand into
cheaper products. pyoselm: its Woodbury form, the faster one. PyTorch: n-Ñ-n, relu, sigmoid,
Adam, one row a step, float32. HalfSpaceTrees: River's defaults, on ready-made dicts or making
them of the same arrays. Medians; the ratios are to the call above. One learned row in sixteen
also pays for adding the waiting ones to V: that shows in p99, and in the means in the file of
results. All these detectors score by loss, as the papers' do.
"""
_VERDICTS = f"""
What a verdict costs by the number of inputs, in the long run (batches' means, the median of them):
the distance that is the default now; the loss as release 0.1 had it, on rows that came side by
side; HalfSpaceTrees on ready dicts. observe_many takes {TOGETHER} rows at a time."""


def print_report(results: Results, units: list[int], about: dict[str, Any], out: Console) -> None:
    """Prints all tables, the targets last."""
    for name, value in about.items():
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        out.print(f"{name}: {', '.join(text) if isinstance(text, list) else text}")
    if about["load before"] > 0.5:
        out.print("The machine was not idle, which hurts most with more than one thread.")
    out.print(_LEGEND)
    for peer, failure in results.failures.items():
        out.print(f"{peer} does not run here: {failure}")
    for size in units:
        out.print(_one_row(results, size))
    out.print(_bulk(results, units), _merging(results, units), _threads(results, units))
    papers = _targets(results, f"Targets at Ñ = {UNITS}", TARGETS)
    out.print(papers if UNITS in units else f"(the papers' targets are for Ñ = {UNITS})")
    out.print(_VERDICTS)
    for threads in THREADS:
        out.print(_verdicts(results, threads))
    out.print(_targets(results, "Targets for a verdict", VERDICT_TARGETS))


def _one_row(results: Results, units: int) -> Table:
    table = _table(
        f"One row, Ñ = {units}, µs",
        ["", "1 thread", "p99", "× Elmgrove", "default", "p99", "× Elmgrove"],
    )
    for case, peers in _SAME_WORK.items():
        for name in (case, *peers):
            cells: list[str] = []
            for threads in THREADS:
                key = Key(units, name, threads)
                if key in results:
                    mine, time = results[Key(units, case, threads)], results[key]
                    factor = "" if name == case else f"{time.median / mine.median:.1f}"
                    cells += [f"{time.median:.1f}", f"{time.p99:.0f}", factor]
            if cells:
                table.add_row(name if name == case else f"  {name}", *cells)
        table.add_section()
    return table


def _bulk(results: Results, units: list[int]) -> Table:
    table = _table(
        f"Bulk training, {BULK_ROWS} rows",
        ["Ñ", "", "threads", "µs a row", "p99", "GEMM GFLOP/s", "share"],
    )
    for size in units:
        for case in ("OSELM.learn_many", "Detector.learn_many"):
            for threads in THREADS:
                time, plain = (results[Key(size, name, threads)] for name in (case, "GEMM"))
                table.add_row(
                    str(size),
                    case,
                    threads,
                    f"{time.median / BULK_ROWS:.2f}",
                    f"{time.p99 / BULK_ROWS:.2f}",
                    f"{2e-3 * GEMM_SIZE**3 / plain.median:.1f}",
                    f"{gemm_share(results, size, case, threads) or 0:.0%}",
                )
        table.add_section()
    return table


def _merging(results: Results, units: list[int]) -> Table:
    table = _table(
        "Merging contributions: sum, check and solve, against adding the arrays and one Cholesky",
        ["Ñ", "contributions", "threads", "ms", "p99", "bare ms", "ratio"],
    )
    for size in units:
        for count in CONTRIBUTIONS:
            for threads in THREADS:
                time = results[Key(size, f"merge {count}", threads)]
                bare = results[Key(size, f"add {count}", threads)]
                table.add_row(
                    str(size),
                    str(count),
                    threads,
                    f"{time.median / 1e3:.2f}",
                    f"{time.p99 / 1e3:.2f}",
                    f"{bare.median / 1e3:.2f}",
                    f"{time.median / bare.median:.2f}",
                )
        table.add_section()
    return table


def _threads(results: Results, units: list[int]) -> Table:
    table = _table(
        "Default threads / one thread: alone on the machine, then while another process has a core",
        ["", *(f"Ñ = {size}" for size in units)],
    )
    for case in (*ONE_ROW, "literal learn"):
        table.add_row(case, *(_slowdowns(results, size, case) for size in units))
    return table


def _slowdowns(results: Results, units: int, case: str) -> str:
    ratios = []
    for machine in ("idle", "busy"):
        one, default = (results[Key(units, case, threads, machine)] for threads in THREADS)
        ratios.append(f"{default.median / one.median:.2f}")
    return "  ".join(ratios)


def _verdicts(results: Results, threads: str) -> Table:
    names = [f"{n}" if s.window == 1 else f"{s.columns} × {s.window}" for n, s in SHAPES.items()]
    title = f"A row, µs, threads: {threads} (in brackets, as a share of what observe takes)"
    table = _table(title, ["", *names])
    for case in ROWS_OF:
        cells = []
        for inputs in SHAPES:
            time, own = (row_time(results, inputs, name, threads) for name in (case, "observe"))
            share = "" if own is None or time is None else f" ({time / own:.2f})"
            cells.append("" if time is None else f"{time:.2f}{share}")
        table.add_row(case, *cells)
    return table


def _targets(results: Results, title: str, targets: list[Target]) -> Table:
    table = _table(title, ["", "target", "one thread", "default threads"])
    for target in targets:
        cells = [_judged(target, target.measured(results, threads)) for threads in THREADS]
        sign = "≥" if target.at_least else "≤"
        table.add_row(target.text, f"{sign} {target.limit:g}", *cells)
    return table


def _judged(target: Target, value: float | None) -> str:
    if value is None:
        return "not measured"
    return f"{value:.2f} [green]met[/]" if target.met(value) else f"{value:.2f} [red]not met[/]"


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, title_style="bold")
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    return table
