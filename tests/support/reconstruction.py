"""Attacks on uploads: what somebody who holds them computes of the rows behind them.

Two uploads of one device differ by ΔU = HᵀH and ΔV = HᵀX of the k rows between them. While k is
below the number of units, ΔU = GᵀG gives G = RH with an unknown rotation R, and ΔV = GᵀY gives
Y = RX. Each row of H and X is then rᵀG and rᵀY for one unknown r of k numbers, and must satisfy
rᵀG = g(rᵀYα + b): more equations than unknowns, solved by least squares from a few random starts.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np
from scipy.optimize import least_squares

from elmgrove import Evidence
from elmgrove.algebra.moments import Moments


def factored(difference: Evidence, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """G and Y: the hidden outputs and the rows, up to one rotation of both."""
    k = most or min(round(difference.count), len(difference.U))
    values, vectors = np.linalg.eigh(difference.U)
    G = (vectors[:, -k:] * np.sqrt(np.maximum(values[-k:], 0.0))).T
    return G, np.linalg.solve(G @ G.T, G @ difference.V)


def computed(difference: Evidence, most: int | None = None, starts: int = 60) -> np.ndarray:
    """What is taken for the rows behind a difference of two uploads of a tanh layer.

    Of many rows, the ``most`` that weigh the most are looked for, and the rest is noise.
    """
    G, Y = factored(difference, most)
    layer, rng = difference.basis.layer, np.random.default_rng(0)
    A = Y @ layer.alpha
    found = [
        least_squares(
            lambda r: np.tanh(r @ A + layer.b) - r @ G,
            rng.normal(size=len(G)),
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            max_nfev=60,
        )
        for _ in range(starts if len(G) < 32 else 4)
    ]
    return np.array([solution.x @ Y for solution in found])


def off(X: np.ndarray, guesses: np.ndarray) -> np.ndarray:
    """For each row, how far off the best guess at it is, in its worst value."""
    away: np.ndarray = np.abs(X[:, None] - guesses[None]).max(axis=2).min(axis=1)
    return away


def share_off(x: np.ndarray, guesses: np.ndarray) -> float:
    """How far off the best guess at one row is, as a share of the row."""
    return float(np.sqrt(np.square(guesses - x).mean(axis=1).min() / np.square(x).mean()))


def at_the_ends(evidence: Moments) -> np.ndarray:
    """The first and the last rows but one window's, of sums over windows without a gap.

    Each place of a window has the rows of the place before it, but for the first, and one more:
    Σ y and Σ y² of two places differ by a − b and a² − b².
    """
    columns, window = evidence.basis.layer.inputs, evidence.basis.window
    about_0 = evidence.about(np.zeros(columns * window))
    s, e = (array.reshape(window, columns) for array in (about_0.s, about_0.e))
    less, squares = np.diff(s, axis=0), np.diff(e, axis=0)
    more = squares / less
    return np.vstack([(more - less) / 2.0, (more + less) / 2.0])


def of_single_units(difference: Evidence) -> np.ndarray:
    """What V says of each unit of relu as if one row alone had made it active: x = V / √U."""
    root = np.sqrt(np.maximum(difference.U.diagonal(), 0.0))
    active = root > 0.0
    guesses: np.ndarray = difference.V[active] / root[active, np.newaxis]
    return guesses


def projections(evidence: Evidence, column: int) -> np.ndarray:
    """The hidden outputs of the one row in which a column was 1, and 0 in all others."""
    return np.asarray(evidence.V[:, column])


def on_and_off(count: int, share: float) -> np.ndarray:
    """Rows of six sensors and two states, each on in this share; where one is, the other is."""
    rng = np.random.default_rng(count)
    rows = rng.normal(20.0, [1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 1.0, 1.0], size=(count, 8))
    rows[:, 6] = rng.random(count) < share
    rows[:, 7] = (rows[:, 6] > 0.0) | (rng.random(count) < share)
    return rows


def singled_out(
    after: Evidence, before: Evidence, flags: Mapping[int, tuple[float, float]]
) -> np.ndarray:
    """What is taken for rows that columns which are on or off single out between two uploads.

    ``flags`` says what off and on are in each. Sums of such columns, differences, and 1 minus
    those: of each of these f, Σ f(x) x is the row itself where f is 1 in that row and 0 elsewhere.
    """
    centre = np.zeros(after.basis.inputs)
    for column, (low, _) in flags.items():
        centre[column] = low
    assert isinstance(after, Moments)
    assert isinstance(before, Moments)
    now, then = after.about(centre), before.about(centre)
    C, s, count = now.C - then.C, now.s - then.s, now.count - then.count
    lines = np.array([C[j] / (high - low) for j, (low, high) in flags.items()])
    rows = np.array([s[j] / (high - low) for j, (low, high) in flags.items()])
    guesses = list[np.ndarray]()
    for weights in product((-1.0, 0.0, 1.0), repeat=len(flags)):
        for all_rows in (0.0, 1.0):
            singled = float(weights @ rows + all_rows * count)
            if abs(abs(singled) - 1.0) < 1e-3:
                guesses.append(centre + (weights @ lines + all_rows * s) / singled)
    return np.array(guesses).reshape(-1, len(centre))
