"""The targets that the project sets itself, each a ratio within one run.

Those of the papers' model are for Ñ = 128. How near learning in bulk comes to a plain product is a
target for ``OSELM`` alone: a detector scores each row before it learns it, counts it and sorts its
score in among the others, which no product does.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.own import BULK_ROWS, GEMM_SIZE
from benchmarks.results import Results
from benchmarks.rows import INPUTS
from benchmarks.verdicts import MANY, SHAPES, TOGETHER

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
    flops = 2 * INPUTS * units + units**2 + 2 * units * INPUTS
    if case.startswith("Detector"):
        # xα and hβ, to score each row
        flops += 4 * INPUTS * units
    flops *= BULK_ROWS
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
ONE_ROW = (TRAIN, "Detector.learn_one", SCORE, "Detector.score_one again", OBSERVE)

TARGETS = [
    Target("training one row: literal NumPy / ours", 5, True, ratio(["literal learn"], [TRAIN])),
    Target("training one row: PyTorch / ours", 20, True, ratio(["PyTorch learn"], [TRAIN])),
    Target("training one row: pyoselm / ours", 30, True, ratio(["pyoselm learn"], [TRAIN])),
    Target("observe / (scoring + training)", 1.5, False, ratio([OBSERVE], [SCORE, TRAIN])),
    Target("OSELM.learn_many: share of GEMM", 0.65, True, share("OSELM.learn_many")),
    Target("1000 contributions / bare sum", 1.5, False, ratio(["merge 1000"], ["add 1000"])),
    Target("worst one-row call / one thread, machine idle", 1.3, False, slowdown("idle")),
    Target("worst one-row call / one thread, machine busy", 1.3, False, slowdown("busy")),
]

# The calls by which a verdict is compared, each with the rows of one call.
ROWS_OF = {
    "observe": 1,
    "observe, as 0.1": 1,
    "HalfSpaceTrees": 1,
    "observe_many": TOGETHER,
    "score_many": MANY,
    "score_many, as 0.1": MANY,
    "its products alone": MANY,
}
_LARGEST = max(SHAPES)


def row_time(results: Results, inputs: int, case: str, threads: str) -> float | None:
    """Computes what one row takes in the long run, in µs."""
    time = results.steady(inputs, case, threads)
    return None if time is None else time / ROWS_OF[case]


def of_inputs(inputs: int, above: str, below: str) -> Callable[[Results, str], float | None]:
    """Makes a measure: what a row takes in one way over what it takes in another."""

    def measured(results: Results, threads: str) -> float | None:
        top, bottom = (row_time(results, inputs, case, threads) for case in (above, below))
        return None if top is None or bottom is None else top / bottom

    return measured


def _verdict_targets(inputs: int) -> list[Target]:
    before = of_inputs(inputs, "observe", "observe, as 0.1")
    scoring = of_inputs(inputs, "score_many, as 0.1", "score_many")
    trees = of_inputs(inputs, "observe", "HalfSpaceTrees")
    at_most = 1.0 if inputs == _LARGEST else 0.6
    made = [Target(f"{inputs} inputs: observe / 0.1's", at_most, False, before)]
    if inputs != _LARGEST:
        made.append(Target(f"{inputs} inputs: observe / HalfSpaceTrees", 1.0, False, trees))
    return [*made, Target(f"{inputs} inputs: score_many, times 0.1's", 3, True, scoring)]


VERDICT_TARGETS = [target for inputs in SHAPES for target in _verdict_targets(inputs)]
