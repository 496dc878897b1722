"""Networks of equal layers side by side, trained step by step as one computation (PyTorch)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers import require_package

#: W₁ (inputs × units), b₁ (1 × units), W₂, b₂, …
Weights = list[Array]
#: Changes weights, given their gradients.
Step = Callable[[list[Any], list[Any]], None]


class Goal(Protocol):
    """What a network's output is, and what it should be."""

    def share(self, rows: Array, width: int) -> Array:
        """Gives what a row's error counts, where a batch has so many rows."""

    def delta(self, z: Any, x: Any, rows: Any, share: Any) -> Any:
        """Gives dL/dz of the last layer, for these rows; z may be overwritten."""


class Reconstruction:
    """A sigmoid, and the mean squared error from the row itself: an autoencoder."""

    def share(self, rows: Array, width: int) -> Array:
        """Gives 2/(kn), of dL/dy = 2(y − x)/(kn)."""
        share: Array = 2.0 / (rows * width)
        return share

    def delta(self, z: Any, x: Any, rows: Any, share: Any) -> Any:
        """Gives 2(y − x)y(1 − y)/(kn)."""
        y = z.sigmoid_()
        return (y - x).mul_(y).mul_(1.0 - y).mul_(share)


@dataclass(frozen=True)
class Classification:
    """A softmax, and the cross entropy from one-hot targets ``T``, a row for each of X."""

    T: Any

    def share(self, rows: Array, width: int) -> Array:
        """Gives 1/k."""
        share: Array = 1.0 / rows
        return share

    def delta(self, z: Any, x: Any, rows: Any, share: Any) -> Any:
        """Gives (y − t)/k."""
        return z.log_softmax(-1).exp_().mul_(share).sub_(self.T[rows].mul_(share))


class Descent(Protocol):
    """A rule by which gradients change weights."""

    def begin(self, arrays: list[Any]) -> None:
        """Forgets what it knows of other networks; these are the arrays from now on."""

    def step(self, active: int) -> Step:
        """Gives the step of the first few networks."""


class Adam:
    """Adam with PyTorch's constants, by its fused kernel."""

    def __init__(self, rate: float) -> None:
        self._rate = rate

    def begin(self, arrays: list[Any]) -> None:
        """Starts with no means."""
        torch = require_package("torch")
        self._adam = require_package("torch.optim.adam").adam
        self._means, self._squares = ([torch.zeros_like(one) for one in arrays] for _ in range(2))
        self._steps = [torch.zeros(()) for _ in arrays]

    def step(self, active: int) -> Step:
        """Gives a step that changes the means of the first few networks alone."""
        means, squares = ([one[:active] for one in part] for part in (self._means, self._squares))

        def take(weights: list[Any], grads: list[Any]) -> None:
            self._adam(
                *(weights, grads, means, squares, [], self._steps),
                fused=True,
                amsgrad=False,
                maximize=False,
                weight_decay=0.0,
                lr=self._rate,
                beta1=0.9,
                beta2=0.999,
                eps=1e-8,
            )

        return take


class Momentum:
    """Stochastic gradient descent with momentum: v ← mv + dL/dw, w ← w − rate·v."""

    def __init__(self, rate: float, momentum: float) -> None:
        self._rate = rate
        self._momentum = momentum

    def begin(self, arrays: list[Any]) -> None:
        """Starts at rest."""
        zeros_like = require_package("torch").zeros_like
        self._velocities = [zeros_like(one) for one in arrays]

    def step(self, active: int) -> Step:
        """Gives a step that moves the first few networks alone."""
        velocities = [one[:active] for one in self._velocities]

        def take(weights: list[Any], grads: list[Any]) -> None:
            for weight, grad, velocity in zip(weights, grads, velocities, strict=True):
                weight.sub_(velocity.mul_(self._momentum).add_(grad), alpha=self._rate)

        return take


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets PyTorch use one thread: two are slower here, and far slower on a shared machine."""
    torch = require_package("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Stack:
    """Networks side by side (ReLU in between): each array's first dimension counts them."""

    def __init__(self, X: Array, weights: Sequence[Weights], goal: Goal, descent: Descent) -> None:
        self._torch = require_package("torch")
        self._goal = goal
        self._descent = descent
        self._X = self._torch.from_numpy(X)
        self._all = [
            self._torch.from_numpy(np.stack(arrays).astype(X.dtype))
            for arrays in zip(*weights, strict=True)
        ]
        self._grads = [self._torch.zeros_like(array) for array in self._all]
        descent.begin(self._all)

    def weights(self) -> list[Weights]:
        """Gives each network's weights, as arrays of its own."""
        return [list(arrays) for arrays in zip(*(a.numpy().copy() for a in self._all), strict=True)]

    def train(
        self, plans: Sequence[Array], taken_one: Callable[[int], None] = lambda taken: None
    ) -> None:
        """Takes the steps of each network's plan; the longest plan comes first.

        A plan has the numbers of a step's rows in each of its rows; −1 is none.
        """
        at_work = np.array([len(plan) for plan in plans])
        taken = 0
        with one_thread():
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
        # The last batch of an epoch may be smaller.
        share = real * self._goal.share(real.sum(axis=2, keepdims=True), self._X.shape[1])
        chosen = self._torch.from_numpy(np.maximum(rows, 0))
        shares = self._torch.from_numpy(share[..., np.newaxis]).to(self._X.dtype)
        weights, grads = ([a[:active] for a in arrays] for arrays in (self._all, self._grads))
        take = self._descent.step(active)
        for step in range(len(rows)):
            self._gradients(chosen[step], shares[step], weights, grads)
            take(weights, grads)
            yield step + 1

    def _gradients(self, rows: Any, share: Any, weights: list[Any], grads: list[Any]) -> None:
        torch, last = self._torch, len(weights) - 2
        x = self._X[rows]
        layers = [x]
        for place in range(0, last, 2):
            z = torch.baddbmm(weights[place + 1], layers[-1], weights[place])
            layers.append(z.relu_())
        z = torch.baddbmm(weights[last + 1], layers[-1], weights[last])
        delta = self._goal.delta(z, x, rows, share)
        for place in range(last, -1, -2):
            h = layers.pop()
            torch.bmm(h.transpose(1, 2), delta, out=grads[place])
            torch.sum(delta, 1, keepdim=True, out=grads[place + 1])
            if layers:
                delta = torch.bmm(delta, weights[place].transpose(1, 2)).mul_(h > 0)
