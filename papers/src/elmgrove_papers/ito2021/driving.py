"""Figure 6, and Figure 5 of Ito 2020: losses on normal and aggressive driving.

Never run on the real drives, which may not be passed on and were not at hand: only on small files
in their layout. What the papers do not state: window and step of the tables (``data.uah``), and
what the losses are measured on. Here that is one driver, of whose drives no device has learned
any: the last driver that drove in both styles on every road on which some driver did. Otherwise
losses would tell roads apart instead of styles: of the published drivers, D6 was aggressive on the
motorway alone, so it is D5.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from elmgrove.algebra import Array, Basis, HiddenLayer
from elmgrove.errors import BadInput
from elmgrove_papers.data import Drive, drives
from elmgrove_papers.data.uah import LEVELS, STEP, WINDOW
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.losses import before_and_after, two_devices
from elmgrove_papers.ito2021.settings import DRIVING_ACTIVATION, DRIVING_UNITS

STYLES = ("aggressive", "normal")
BASIS = Basis(
    HiddenLayer(LEVELS**2, DRIVING_UNITS, DRIVING_ACTIVATION, seed=SEED), LEVELS**2, score="loss"
)


def figure6(run: Run) -> Numbers:
    """Gives the losses where Device-A drives normally; the quick run is the full one."""
    return _losses(drives(run.data), "normal", "aggressive")


def figure5_of_2020(run: Run) -> Numbers:
    """Gives the losses where Device-A drives aggressively, as the paper of 2020 has it."""
    return _losses(drives(run.data), "aggressive", "normal")


def _losses(known: Sequence[Drive], own: str, other: str) -> Numbers:
    driver = _tested_driver(known)
    learned = _rows(drive for drive in known if drive.driver != driver)
    tested = _rows(drive for drive in known if drive.driver == driver)
    fleet = two_devices(BASIS, learned[own], learned[other])
    return {
        "loss": before_and_after(fleet, tested),
        "rows learned": {style: len(rows) for style, rows in learned.items()},
        "rows tested": {style: len(rows) for style, rows in tested.items()},
        "tested driver": driver,
        "window, s": WINDOW,
        "step, s": STEP,
    }


def _tested_driver(known: Iterable[Drive]) -> str:
    """The last one with both styles on every road on which some driver has both."""
    driven = defaultdict(set)
    for drive in known:
        if len(drive.rows):
            driven[drive.driver, drive.road].add(drive.pattern)
    both = {place for place, styles in driven.items() if styles.issuperset(STYLES)}
    drivers, roads = ({place[k] for place in both} for k in (0, 1))
    fit = [one for one in drivers if all((one, road) in both for road in roads)]
    if not fit:
        raise _too_few()
    return max(fit)


def _rows(drives: Iterable[Drive]) -> dict[str, Array]:
    """The rows of each style."""
    found = {style: [np.empty((0, LEVELS**2))] for style in STYLES}
    for drive in drives:
        if drive.pattern in found:
            found[drive.pattern].append(drive.rows)
    rows = {style: np.vstack(parts) for style, parts in found.items()}
    if any(len(part) == 0 for part in rows.values()):
        raise _too_few()
    return rows


def _too_few() -> BadInput:
    return BadInput(
        f"too few drives of more than {WINDOW} s: a driver must have a normal and an aggressive "
        "one on every road on which some driver has both, and the others one of each as well"
    )
