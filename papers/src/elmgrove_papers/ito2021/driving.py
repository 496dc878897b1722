"""Figure 6, and Figure 5 of Ito 2020: losses on normal and aggressive driving.

The drives may not be passed on, so they are not at hand here: tests run on small files in their
layout. What the papers do not state: window and step of the tables (``data.uah``), and what the
losses are measured on. Here each driver is tested in turn, with devices that have learned none of
its drives: Device-A one style of all other drivers, Device-B the other one, on all their roads. It
is tested on the roads on which it drove in both styles; otherwise losses would tell roads apart
instead of styles: of the published drivers, D6 was aggressive on the motorway alone.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array, Basis, HiddenLayer
from elmgrove.errors import BadInput
from elmgrove_papers.data import drives
from elmgrove_papers.data.uah import LEVELS, STEP, WINDOW
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.losses import MERGED, A, B, before_and_after, two_devices
from elmgrove_papers.ito2021.settings import DRIVING_ACTIVATION, DRIVING_UNITS

STYLES = ("aggressive", "normal")
MEAN = "mean"
BASIS = Basis(
    HiddenLayer(LEVELS**2, DRIVING_UNITS, DRIVING_ACTIVATION, seed=SEED), LEVELS**2, score="loss"
)


class _Driven(NamedTuple):
    """What a driver drove in one style on one road."""

    driver: str
    style: str
    road: str
    rows: Array


class _Test(NamedTuple):
    """A tested driver: its roads, its rows of each style there, and those of all others."""

    roads: tuple[str, ...]
    tested: dict[str, Array]
    learned: dict[str, Array]

    @property
    def rows(self) -> dict[str, Any]:
        """What is compared, in numbers."""
        counts = {
            f"{key}, {style}": len(rows)
            for key, part in (("learned", self.learned), ("tested", self.tested))
            for style, rows in part.items()
        }
        return {"roads": " and ".join(self.roads), **counts}


def figure6(run: Run) -> Numbers:
    """Gives the losses where Device-A drives normally; the quick run is the full one."""
    return _losses(run, "normal", "aggressive")


def figure5_of_2020(run: Run) -> Numbers:
    """Gives the losses where Device-A drives aggressively, as the paper of 2020 has it."""
    return _losses(run, "aggressive", "normal")


def _losses(run: Run, own: str, other: str) -> Numbers:
    notes: list[str] = []
    tests = _tests(_driven(run, notes))
    loss: dict[str, dict[str, Numbers]] = {}
    for driver, test in tests.items():
        fleet = two_devices(BASIS, test.learned[own], test.learned[other])
        loss[driver] = before_and_after(fleet, test.tested)
    falls = {driver: _falls(rows, own, other) for driver, rows in loss.items()}
    means = {style: _mean(row[style] for row in loss.values()) for style in STYLES}
    return {
        "learned": {
            device: f"{style} driving of all drivers but the tested one"
            for device, style in ((A, own), (B, other))
        },
        "loss": loss | {MEAN: means},
        "times lower after the merge": falls | {MEAN: _mean(falls.values())},
        "rows": {driver: test.rows for driver, test in tests.items()},
        "window, s": WINDOW,
        "step, s": STEP,
        **({"notes": notes} if notes else {}),
    }


def _driven(run: Run, notes: list[str]) -> list[_Driven]:
    """The drives of both styles that are long enough; others are not read."""

    def note(text: str) -> None:
        run.note(text)
        notes.append(text.replace(f"{run.data}/", ""))

    found = [
        _Driven(one.driver, one.pattern, one.road, one.rows(note))
        for one in drives(run.data, note)
        if one.pattern in STYLES
    ]
    return [one for one in found if len(one.rows)]


def _tests(driven: Sequence[_Driven]) -> dict[str, _Test]:
    """A test for each driver with a road in both styles, where the others have both as well."""
    tests = {}
    for driver in sorted({one.driver for one in driven}):
        mine = [one for one in driven if one.driver == driver]
        roads = set.intersection(*({o.road for o in mine if o.style == s} for s in STYLES))
        tested = _rows(one for one in mine if one.road in roads)
        learned = _rows(one for one in driven if one.driver != driver)
        if all(len(rows) for part in (tested, learned) for rows in part.values()):
            tests[driver] = _Test(tuple(sorted(roads)), tested, learned)
    if not tests:
        raise BadInput(
            f"too few drives of more than {WINDOW} s: a driver must have a normal and an "
            "aggressive one on the same road, and the other drivers one of each as well"
        )
    return tests


def _rows(driven: Iterable[_Driven]) -> dict[str, Array]:
    """The rows of each style."""
    found = {style: [np.empty((0, LEVELS**2))] for style in STYLES}
    for one in driven:
        found[one.style].append(one.rows)
    return {style: np.vstack(parts) for style, parts in found.items()}


def _falls(rows: Numbers, own: str, other: str) -> dict[str, float]:
    """How many times lower the loss on what the other device learned is, at each."""
    return {
        f"{style} at {device}": rows[style][device] / rows[style][MERGED]
        for device, style in ((A, other), (B, own))
    }


def _mean(rows: Iterable[Numbers]) -> Numbers:
    each = list(rows)
    return {key: float(np.mean([row[key] for row in each])) for key in each[0]}
