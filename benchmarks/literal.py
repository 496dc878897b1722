"""The papers' equations in plain NumPy, word for word: what a reader would write first."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove import HiddenLayer

Matrix = NDArray[np.floating[Any]]


class LiteralOSELM:
    """OS-ELM by equations (12) and (13) of Ito 2021, with the identity as activation."""

    def __init__(self, layer: HiddenLayer, X0: Matrix, ridge: float = 1e-3) -> None:
        self.alpha, self.b = layer.alpha, layer.b
        H = self.hidden(X0)
        self.P: Matrix = np.linalg.inv(H.T @ H + ridge * np.eye(layer.units))
        self.beta: Matrix = self.P @ H.T @ X0

    def hidden(self, X: Matrix) -> Matrix:
        """Computes H = G(xα + b)."""
        H: Matrix = X @ self.alpha + self.b
        return H

    def learn(self, X: Matrix) -> None:
        """Learns a chunk of rows by equation (12)."""
        H, P, inv = self.hidden(X), self.P, np.linalg.inv
        self.P = P - P @ H.T @ inv(np.eye(len(X)) + H @ P @ H.T) @ H @ P
        self.beta = self.beta + self.P @ H.T @ (X - H @ self.beta)

    def learn_one(self, X: Matrix) -> None:
        """Learns one row by equation (12), where the inverse is a reciprocal (§3.3)."""
        H, P = self.hidden(X), self.P
        self.P = P - P @ H.T * (1.0 / (1.0 + H @ P @ H.T)) @ H @ P
        self.beta = self.beta + self.P @ H.T @ (X - H @ self.beta)

    def learn_one_with_care(self, X: Matrix) -> None:
        """Learns one row with P Hᵀ computed once and no product of two Ñ × Ñ matrices."""
        H = self.hidden(X)
        PHt = self.P @ H.T
        self.P -= PHt @ PHt.T / (1.0 + H @ PHt)
        self.beta += self.P @ H.T @ (X - H @ self.beta)

    def score_one(self, X: Matrix) -> float:
        """Scores one row: the mean squared error of its reconstruction."""
        return float(np.mean((X - self.hidden(X) @ self.beta) ** 2))
