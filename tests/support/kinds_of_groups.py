"""Three kinds of rows in several patterns each, and what joining them loses."""

import numpy as np

from support.planes import RIDGE, evidence, near, said

#: Three kinds of rows, in two to four patterns each.
KINDS = [near(kind, 10 * kind + n, 60 + 7 * n) for kind in (1, 2, 3) for n in range(kind + 1)]


TRUTH = [kind for kind in (1, 2, 3) for _ in range(kind + 1)]


SAID = [said(f"{n}", X) for n, X in enumerate(KINDS)]


def literal_loss(parts: list[np.ndarray], others: list[np.ndarray]) -> float:
    """From rows: the growth of the worse off's error under one model of both."""
    X, Y = np.vstack(parts), np.vstack(others)
    joint = evidence(np.vstack([X, Y])).solve(RIDGE)
    growth = []
    for Z in (X, Y):
        H = evidence(Z).basis.layer(Z)
        after, before = (
            np.square(Z - H @ beta).sum() for beta in (joint, evidence(Z).solve(RIDGE))
        )
        growth.append(after / before - 1)
    return float(max(growth))


def betas() -> np.ndarray:
    return np.array([evidence(X).solve(RIDGE).ravel() for X in KINDS])
