"""Whether running sums stay right over a million replacements, and what one costs."""

from dataclasses import asdict
from functools import partial
from itertools import cycle, islice
from typing import Any

from benchmarks.clock import Case, Timing, batch
from benchmarks.exchange.drift import CHECKS, DEVICES, GIANT, GIANT_EACH, Drift, drift_of
from benchmarks.exchange.fleet import HAR, Size, evidences
from benchmarks.exchange.output import Output, progress
from elmgrove import Evidence
from elmgrove.federation.sums import RunningSum

_EVIDENCES = 64
_FLEETS = (10, 100, 1000, 10_000)
# For each of them.
_SECONDS = 2.0
_LIMIT = 1e-9
_LEGEND = f"""
A replacement takes a device's old contribution out of the sum over {DEVICES} devices and puts
another in. difference: from adding up all that are in, the largest at {CHECKS} moments, as a
share of the largest entry. plain: the same steps as += and -= on float64 arrays. giants: one
replacement in {GIANT_EACH} is {GIANT:g} times as large as the others; the next undoes it."""


def measure_sums(replacements: int, size: Size) -> None:
    """Measures the drift in both cases, then the cost at full size."""
    output = Output("sums")
    pool = evidences(size, _EVIDENCES)
    drifts = {}
    for case, giants in (("all alike", False), ("giants come and go", True)):
        progress.print(case)
        drifts[case] = drift_of(pool, replacements, giants=giants)
    costs = _costs()
    _report(output, replacements, size, drifts, costs)
    output.write(
        {
            "size": size._asdict(),
            "replacements": replacements,
            "largest difference": {case: asdict(drift) for case, drift in drifts.items()},
            "cost": {"size": HAR._asdict(), "unit": "µs", "devices": costs},
        }
    )


def _costs() -> dict[str, dict[str, Any]]:
    pool = evidences(HAR, _EVIDENCES)
    found = {}
    for devices in _FLEETS:
        progress.print(f"{HAR}: one replacement and a full sum among {devices} devices")
        held = list(islice(cycle(pool), devices))
        running = RunningSum(pool[0].basis)
        for evidence in held:
            running.add(evidence)
        pairs = zip(cycle(pool[1:]), cycle(pool[1:]), strict=False)
        replacing = Case(pairs.__next__, partial(_replace, running))
        summing = Case(partial(list, held), Evidence.sum)
        found[str(devices)] = {
            "replacement": asdict(Timing.of(batch(replacing, _SECONDS))),
            "full sum": asdict(Timing.of(batch(summing, _SECONDS))),
        }
    return found


def _replace(running: RunningSum, pair: tuple[Evidence, Evidence]) -> None:
    running.add(pair[0])
    running.remove(pair[1])


def _report(
    output: Output,
    replacements: int,
    size: Size,
    drifts: dict[str, Drift],
    costs: dict[str, dict[str, Any]],
) -> None:
    output.say(_LEGEND)
    lines = [
        (case, drift.running, drift.plain, "met" if drift.running <= _LIMIT else "not met")
        for case, drift in drifts.items()
    ]
    columns = ("", "running sum", "plain", f"running sum ≤ {_LIMIT:g}")
    output.table(f"Difference after {replacements} replacements, {size}", columns, lines)
    times = [
        (devices, cost["replacement"]["median"], cost["full sum"]["median"])
        for devices, cost in costs.items()
    ]
    output.table(f"Time, {HAR}", ("devices", "replacement µs", "full sum µs"), times)
