"""Figure 6, and Figure 5 of Ito 2020: losses on normal and aggressive driving.

Never run on the real drives, which may not be passed on and were not at hand: only on small files
in their layout. What the papers do not state: window and step of the tables (``data.uah``), and
what the losses are measured on. Here that is the last driver, whom no device has learned.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from elmgrove.basis import Basis
from elmgrove.errors import BadInput
from elmgrove.hidden import HiddenLayer
from elmgrove.papers.data import Drive, drives
from elmgrove.papers.data.uah import LEVELS, STEP, WINDOW
from elmgrove.papers.figure import SEED, Numbers, Run
from elmgrove.papers.ito2021.losses import Array, before_and_after, two_devices
from elmgrove.papers.ito2021.settings import DRIVING_ACTIVATION, DRIVING_UNITS

PATTERNS = ("aggressive", "normal")
BASIS = Basis(HiddenLayer(LEVELS**2, DRIVING_UNITS, DRIVING_ACTIVATION, seed=SEED), LEVELS**2)


def figure6(run: Run) -> Numbers:
    """Device-A drives normally, Device-B aggressively; the quick run is the full one."""
    return _losses(drives(run.data), "normal", "aggressive")


def figure5_of_2020(run: Run) -> Numbers:
    """The same with the devices' parts exchanged, as the paper of 2020 has it."""
    return _losses(drives(run.data), "aggressive", "normal")


def _losses(known: Sequence[Drive], own: str, other: str) -> Numbers:
    last = max(drive.driver for drive in known)
    learned = _rows(drive for drive in known if drive.driver != last)
    tested = _rows(drive for drive in known if drive.driver == last)
    fleet = two_devices(BASIS, learned[own], learned[other])
    return {
        "loss": before_and_after(fleet, tested),
        "rows learned": {pattern: len(rows) for pattern, rows in learned.items()},
        "rows tested": {pattern: len(rows) for pattern, rows in tested.items()},
        "tested driver": last,
        "window, s": WINDOW,
        "step, s": STEP,
    }


def _rows(drives: Iterable[Drive]) -> dict[str, Array]:
    """The rows of each pattern."""
    found = {pattern: [np.empty((0, LEVELS**2))] for pattern in PATTERNS}
    for drive in drives:
        if drive.pattern in found:
            found[drive.pattern].append(drive.rows)
    rows = {pattern: np.vstack(parts) for pattern, parts in found.items()}
    if any(len(part) == 0 for part in rows.values()):
        raise BadInput(
            "the last driver, and one of the others, need a normal and an aggressive drive of "
            f"more than {WINDOW} s each"
        )
    return rows
