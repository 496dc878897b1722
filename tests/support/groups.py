"""Patterns of several devices in three groups, and what joining them loses."""

import numpy as np

from elmgrove.federation.groups import Grouping
from support.factories import RIDGE, contribution_of, evidence_of, near_plane

#: The rows of two to four patterns a group.
PATTERNS = [near_plane(one, 10 * one + n, 60 + 7 * n) for one in (1, 2, 3) for n in range(one + 1)]
#: The group of each.
TRUTH = [group for group in (1, 2, 3) for _ in range(group + 1)]
#: A device with each pattern.
SAID = [contribution_of(f"{n}", X) for n, X in enumerate(PATTERNS)]


def literal_loss(parts: list[np.ndarray], others: list[np.ndarray]) -> float:
    """From rows: the growth of the worse off's error under one model of both."""
    X, Y = np.vstack(parts), np.vstack(others)
    joint = evidence_of(np.vstack([X, Y])).solve(RIDGE)
    growth = []
    for Z in (X, Y):
        H = evidence_of(Z).basis.layer(Z)
        after, before = (
            np.square(Z - H @ beta).sum() for beta in (joint, evidence_of(Z).solve(RIDGE))
        )
        growth.append(after / before - 1)
    return float(max(growth))


def betas() -> np.ndarray:
    """The model of each pattern, one a row."""
    return np.array([evidence_of(X).solve(RIDGE).ravel() for X in PATTERNS])


def group_of(grouping: Grouping, origin: str, pattern: int = 0) -> int:
    """The group of a device's pattern."""
    pairs = zip(grouping.models, grouping.labels, strict=True)
    return {model.name: label for model, label in pairs}[origin, pattern]
