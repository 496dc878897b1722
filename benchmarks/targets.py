"""The targets that the project sets itself at Ñ = 128, each a ratio within one run."""

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.own import BULK_ROWS, GEMM_SIZE
from benchmarks.results import Results
from benchmarks.rows import INPUTS

UNITS = 128
THREADS = ("1", "default")


class Target(NamedTuple):
    """A ratio that must reach, or not exceed, a limit."""

    text: str
    limit: float
    at_least: bool
    measured: Callable[[Results, str], float | None]

    def met(self, value: float) -> bool:
        """Says whether this value is good enough."""
        return value >= self.limit if self.at_least else value <= self.limit

    def record(self, results: Results) -> dict[str, Any]:
        """Gives the target as JSON holds it, with what was measured."""
        values = {threads: self.measured(results, threads) for threads in THREADS}
        met = {threads: v is not None and self.met(v) for threads, v in values.items()}
        least = "at least" if self.at_least else "at most"
        return {"target": self.text, least: self.limit, "measured": values, "met": met}


def gemm_share(results: Results, units: int, case: str, threads: str) -> float | None:
    """Computes how fast rows are learned in bulk, as a share of the speed of a plain product."""
    time, plain = results.median(units, case, threads), results.median(units, "GEMM", threads)
    if time is None or plain is None:
        return None
    # xα, the symmetric half of HᵀH, Hᵀx
    flops = BULK_ROWS * (2 * INPUTS * units + units**2 + 2 * units * INPUTS)
    return (flops / time) / (2 * GEMM_SIZE**3 / plain)


def ratio(above: list[str], below: list[str]) -> Callable[[Results, str], float | None]:
    """Makes a measure: the sum of some medians over the sum of others."""

    def measured(results: Results, threads: str) -> float | None:
        sums = [
            [results.median(UNITS, case, threads) for case in cases] for cases in (above, below)
        ]
        top, bottom = (sum(t for t in times if t is not None) for times in sums)
        return None if None in sums[0] + sums[1] else top / bottom

    return measured


def share(case: str) -> Callable[[Results, str], float | None]:
    """Makes a measure: ``gemm_share`` of one way to learn in bulk."""
    return lambda results, threads: gemm_share(results, UNITS, case, threads)


def slowdown(machine: str) -> Callable[[Results, str], float | None]:
    """Makes a measure: the time with these threads over that with one, of the worst call."""

    def measured(results: Results, threads: str) -> float | None:
        pairs = [
            [results.median(UNITS, case, number, machine) for number in (threads, "1")]
            for case in ONE_ROW
        ]
        ratios = [mine / one for mine, one in pairs if mine is not None and one is not None]
        return max(ratios, default=None)

    return measured


TRAIN, SCORE, OBSERVE = "OSELM.learn_one", "Detector.score_one", "Detector.observe"
TREES, TREES_ALONE = "HalfSpaceTrees both, from an array", "HalfSpaceTrees both"
ONE_ROW = (TRAIN, "Detector.learn_one", SCORE, "Detector.score_one again", OBSERVE)

TARGETS = [
    Target("training one row: literal NumPy / ours", 5, True, ratio(["literal learn"], [TRAIN])),
    Target("training one row: PyTorch / ours", 20, True, ratio(["PyTorch learn"], [TRAIN])),
    Target("training one row: pyoselm / ours", 30, True, ratio(["pyoselm learn"], [TRAIN])),
    Target("observe / (scoring + training)", 1.5, False, ratio([OBSERVE], [SCORE, TRAIN])),
    Target("observe / HalfSpaceTrees from the same array", 1.2, False, ratio([OBSERVE], [TREES])),
    Target("observe / HalfSpaceTrees from a dict", 1.2, False, ratio([OBSERVE], [TREES_ALONE])),
    Target("OSELM.learn_many: share of GEMM", 0.65, True, share("OSELM.learn_many")),
    Target("Detector.learn_many: share of GEMM", 0.65, True, share("Detector.learn_many")),
    Target("1000 contributions / bare sum", 1.5, False, ratio(["merge 1000"], ["add 1000"])),
    Target("worst one-row call / one thread, machine idle", 1.3, False, slowdown("idle")),
    Target("worst one-row call / one thread, machine busy", 1.3, False, slowdown("busy")),
]
