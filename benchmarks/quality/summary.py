"""The numbers of a run put together: over seeds, devices and simulated machines."""

from collections.abc import Iterable, Sequence
from statistics import fmean, median, pstdev
from typing import NamedTuple

from benchmarks.quality.battery import Flagged
from benchmarks.quality.runs import Record

SHAPES = ("block", "single")


class Line(NamedTuple):
    """One method on one set.

    Means are over devices, of each device's mean over seeds; false alarms are the median over
    devices. ``devices_spread`` is the standard deviation over devices; ``seeds_spread`` is the
    highest minus the lowest over seeds, of the mean over devices, and ``worst_spread`` that of the
    device where it is largest. None where there is one seed.
    """

    set: str
    method: str
    devices: int
    seeds: int
    auc: float
    ap: float
    recall: float
    false_alarms: float
    devices_spread: float
    seeds_spread: float | None
    worst_spread: float | None
    seconds: float
    #: The rows in a window that Elmgrove chose, if it did.
    windows: tuple[int, ...] = ()


class Battery(NamedTuple):
    """One method on all simulated machines of a kind and width.

    For each shape of a fault the mean share of its rows that is flagged, and the lowest over seeds
    and orders of columns, in which a machine's faults are taken together; ``worst`` is that of the
    one fault of which least is flagged.
    """

    kind: str
    sensors: int
    method: str
    runs: int
    mean: dict[str, float]
    lowest: dict[str, float]
    worst: dict[str, float]
    false_alarms: float
    auc: float
    seconds: float


def counted(sensors: int) -> str:
    """Says how many sensors."""
    return f"{sensors} sensor{'s' if sensors > 1 else ''}"


def lines(records: Sequence[Record]) -> list[Line]:
    """Puts records together: a line for each set and method, in the order of first appearance."""
    keys = dict.fromkeys((one.set, one.method) for one in records)
    return [_line([one for one in records if (one.set, one.method) == key]) for key in keys]


def mean_auc(records: Iterable[Record], name: str, method: str, devices: set[str]) -> float:
    """Averages the ROC-AUC of a method on these devices of a set."""
    wanted = (one for one in records if (one.set, one.method) == (name, method))
    return fmean(one.quality.auc for one in wanted if one.device in devices)


def devices_with(records: Iterable[Record], name: str, method: str) -> set[str]:
    """Names the devices of a set on which a method ran."""
    return {one.device for one in records if (one.set, one.method) == (name, method)}


def batteries(found: Sequence[Flagged]) -> list[Battery]:
    """Puts the simulated machines together by kind, width and method."""
    keys = dict.fromkeys((one.kind, one.sensors, one.method) for one in found)
    return [
        _battery([one for one in found if (one.kind, one.sensors, one.method) == key])
        for key in keys
    ]


def _line(records: Sequence[Record]) -> Line:
    by_device: dict[str, list[Record]] = {}
    by_seed: dict[int, list[Record]] = {}
    for one in records:
        by_device.setdefault(one.device, []).append(one)
        by_seed.setdefault(one.seed, []).append(one)
    aucs = [_mean(group, "auc") for group in by_device.values()]
    seeds = [_mean(group, "auc") for group in by_seed.values()]
    several = [[one.quality.auc for one in group] for group in by_device.values()]
    alarms = [_mean(group, "false_alarms") for group in by_device.values()]
    seconds = [one.quality.fit_seconds + one.quality.score_seconds for one in records]
    return Line(
        set=records[0].set,
        method=records[0].method,
        devices=len(by_device),
        seeds=len(by_seed),
        auc=fmean(aucs),
        ap=_mean(records, "ap"),
        recall=_mean(records, "recall"),
        false_alarms=median(alarms),
        devices_spread=pstdev(aucs),
        seeds_spread=max(seeds) - min(seeds) if len(seeds) > 1 else None,
        worst_spread=max(max(one) - min(one) for one in several) if len(seeds) > 1 else None,
        seconds=fmean(seconds),
        windows=tuple(sorted({one.window for one in records if one.window is not None})),
    )


def _mean(records: Iterable[Record], name: str) -> float:
    return fmean(getattr(one.quality, name) for one in records)


def _battery(found: Sequence[Flagged]) -> Battery:
    shares = {shape: [one.share(shape) for one in found] for shape in SHAPES}
    faults = [fault for one in found for fault in one.faults]
    worst = {
        shape: min(one["flagged"] for one in faults if one["shape"] == shape) for shape in SHAPES
    }
    return Battery(
        kind=found[0].kind,
        sensors=found[0].sensors,
        method=found[0].method,
        runs=len(found),
        mean={shape: fmean(values) for shape, values in shares.items()},
        lowest={shape: min(values) for shape, values in shares.items()},
        worst=worst,
        false_alarms=fmean(one.false_alarms for one in found),
        auc=fmean(one.auc for one in found),
        seconds=fmean(one.seconds for one in found),
    )
