"""Autoencoders trained by backpropagation, many of equal layers as one computation (PyTorch)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from elmgrove.extras import extra
from elmgrove.papers.ito2021.settings import Training

Array = NDArray[Any]
#: W₁ (inputs × units), b₁ (1 × units), W₂, b₂, …
Weights = list[Array]
#: Networks in one computation: from four on, more make it no faster, since memory is what it
#: waits for; with fewer a progress bar moves more often.
AT_ONCE = 8


@dataclass(frozen=True)
class Task:
    """A network to train: its weights now, which rows it gets, what their order follows from."""

    weights: Weights
    rows: Array
    seed: tuple[int, ...]


def begin(width: int, training: Training, seed: Sequence[int]) -> Weights:
    """TensorFlow's beginning of a dense layer: Glorot's uniform weights, no bias."""
    rng, weights = np.random.default_rng(seed), Weights()
    for fan_in, fan_out in pairwise((width, *training.hidden, width)):
        limit = np.sqrt(6.0 / (fan_in + fan_out))
        weights += [rng.uniform(-limit, limit, (fan_in, fan_out)), np.zeros((1, fan_out))]
    return weights


def losses(weights: Weights, X: Array) -> Array:
    """The mean squared error of each row's reconstruction."""
    y = X.astype(weights[0].dtype)
    for place in range(0, len(weights), 2):
        z = y @ weights[place] + weights[place + 1]
        y = expit(z) if place == len(weights) - 2 else np.maximum(z, 0.0)
    mean: Array = ((X - y) ** 2).mean(axis=1)
    return mean


def batches(task: Task, training: Training) -> Array:
    """The rows of each step: all of them in a new order each epoch; −1 fills the last batch."""
    rng, k = np.random.default_rng(task.seed), training.batch
    steps = -(-len(task.rows) // k)
    found = np.full((training.epochs, steps * k), -1)
    for epoch in found:
        epoch[: len(task.rows)] = rng.permutation(task.rows)
    return found.reshape(-1, k)


def fitted(X: Array, tasks: Sequence[Task], training: Training) -> list[Weights]:
    """The weights of each network after Adam's steps on its own rows of X, in the type of X.

    Equal, to rounding, to training each alone: nothing of a network enters another's step, and
    each takes as many steps as its own rows make. All have begun at once, so whoever is still at
    it is at the same step. Needs PyTorch, and memory for the batches of all steps.
    """
    plans = [batches(task, training) for task in tasks]
    # The one with the most steps first: those still at work are always the first few.
    order = sorted(range(len(tasks)), key=lambda place: -len(plans[place]))
    stack = _Stack(X, [tasks[place].weights for place in order], training.rate)
    stack.train([plans[place] for place in order])
    found = stack.weights()
    return [found[order.index(place)] for place in range(len(tasks))]


class _Stack:
    """Networks side by side: each array has a first dimension that counts them."""

    def __init__(self, X: Array, weights: Sequence[Weights], rate: float) -> None:
        self._rate = rate
        self._torch = extra("torch", "papers")
        self._optimize = extra("torch.optim.adam", "papers").adam
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

    def train(self, plans: Sequence[Array]) -> None:
        """Each network takes the steps of its plan; the longest plan comes first."""
        at_work = np.array([len(plan) for plan in plans])
        taken = 0
        # Until the next network is done, the same ones are at work.
        for until in sorted(set(at_work.tolist())):
            active = int((at_work >= until).sum())
            rows = np.stack([plan[taken:until] for plan in plans[:active]], axis=1)
            self._advance(rows, active)
            taken = until

    def _advance(self, rows: Array, active: int) -> None:
        """Some steps of the first few networks; rows: steps × networks × batch."""
        real = rows >= 0
        # dL/dy = 2(y − x)/(kn), where the last batch of an epoch has a smaller k.
        share = real * (2.0 / (real.sum(axis=2, keepdims=True) * self._X.shape[1]))
        chosen = self._torch.from_numpy(np.maximum(rows, 0))
        shares = self._torch.from_numpy(share[..., np.newaxis]).to(self._X.dtype)
        state = [[a[:active] for a in arrays] for arrays in self._arrays]
        for step in range(len(rows)):
            self._gradients(self._X[chosen[step]], shares[step], *state[:2])
            self._adam(*state)

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
