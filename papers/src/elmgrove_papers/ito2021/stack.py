"""Networks of equal layers side by side, trained step by step as one computation (PyTorch)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.errors import require_extra

#: W₁ (inputs × units), b₁ (1 × units), W₂, b₂, …
Weights = list[Array]


class Stack:
    """Networks side by side: each array has a first dimension that counts them."""

    def __init__(self, X: Array, weights: Sequence[Weights], rate: float) -> None:
        self._rate = rate
        self._torch = require_extra("torch", "papers")
        self._optimize = require_extra("torch.optim.adam", "papers").adam
        # Two threads are slower here than one, and far slower where the machine is shared.
        self._torch.set_num_threads(1)
        self._X = self._torch.from_numpy(X)
        self._all = [
            self._torch.from_numpy(np.stack(arrays).astype(X.dtype))
            for arrays in zip(*weights, strict=True)
        ]
        zeros = self._torch.zeros_like
        self._grads, self._means, self._squares = (
            [zeros(array) for array in self._all] for _ in range(3)
        )
        self._steps = [self._torch.zeros(()) for _ in self._all]

    def weights(self) -> list[Weights]:
        """Of each network, as arrays of its own."""
        return [list(arrays) for arrays in zip(*(a.numpy().copy() for a in self._all), strict=True)]

    def train(self, plans: Sequence[Array], taken_one: Callable[[int], None]) -> None:
        """Each network takes the steps of its plan; the longest plan comes first."""
        at_work = np.array([len(plan) for plan in plans])
        taken = 0
        # Until the next network is done, the same ones are at work.
        for until in sorted(set(at_work.tolist())):
            active = int((at_work >= until).sum())
            rows = np.stack([plan[taken:until] for plan in plans[:active]], axis=1)
            for step in self._advance(rows, active):
                taken_one(taken + step)
            taken = until

    def _advance(self, rows: Array, active: int) -> Iterator[int]:
        """Takes some steps of the first few networks, and counts them.

        The rows are steps × networks × batch.
        """
        real = rows >= 0
        # dL/dy = 2(y − x)/(kn), where the last batch of an epoch has a smaller k.
        share = real * (2.0 / (real.sum(axis=2, keepdims=True) * self._X.shape[1]))
        chosen = self._torch.from_numpy(np.maximum(rows, 0))
        shares = self._torch.from_numpy(share[..., np.newaxis]).to(self._X.dtype)
        state = [[a[:active] for a in arrays] for arrays in self._arrays]
        for step in range(len(rows)):
            self._gradients(self._X[chosen[step]], shares[step], *state[:2])
            self._adam(*state)
            yield step + 1

    @property
    def _arrays(self) -> list[list[Any]]:
        return [self._all, self._grads, self._means, self._squares]

    def _gradients(self, x: Any, share: Any, weights: list[Any], grads: list[Any]) -> None:
        torch, last = self._torch, len(weights) - 2
        layers = [x]
        for place in range(0, len(weights), 2):
            z = torch.baddbmm(weights[place + 1], layers[-1], weights[place])
            layers.append(z.sigmoid_() if place == last else z.relu_())
        y = layers.pop()
        delta = (y - x).mul_(y).mul_(1.0 - y).mul_(share)
        for place in range(last, -1, -2):
            h = layers.pop()
            torch.bmm(h.transpose(1, 2), delta, out=grads[place])
            torch.sum(delta, 1, keepdim=True, out=grads[place + 1])
            if layers:
                delta = torch.bmm(delta, weights[place].transpose(1, 2)).mul_(h > 0)

    def _adam(self, *state: list[Any]) -> None:
        self._optimize(
            *(*state, [], self._steps),
            **{"fused": True, "amsgrad": False, "maximize": False, "weight_decay": 0.0},
            **{"lr": self._rate, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
        )
