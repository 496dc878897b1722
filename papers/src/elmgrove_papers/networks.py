"""Autoencoders that Adam trains, many of equal layers as one computation (PyTorch)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import expit

from elmgrove.algebra import Array
from elmgrove_papers.backpropagation import Adam, Reconstruction, Stack, Weights

#: Adam's, as TensorFlow 1.12 and PyTorch have it; Ito 2021 states none.
RATE = 1e-3
#: Networks in one computation: from four on, more make it no faster, since memory is what it
#: waits for; with fewer a progress bar moves more often.
AT_ONCE = 8


@dataclass(frozen=True)
class Training:
    """A network's hidden layers (ReLU, then a sigmoid as output), and how Adam trains it on MSE."""

    hidden: tuple[int, ...]
    batch: int
    epochs: int
    rate: float = RATE


@dataclass(frozen=True)
class Task:
    """A network to train: its weights now, which rows it gets, what their order follows from."""

    weights: Weights
    rows: Array
    seed: tuple[int, ...]


def begin(width: int, training: Training, seed: Sequence[int]) -> Weights:
    """Draws weights as TensorFlow begins a dense layer: Glorot's uniform ones, no bias."""
    rng, weights = np.random.default_rng(seed), Weights()
    for fan_in, fan_out in pairwise((width, *training.hidden, width)):
        limit = np.sqrt(6.0 / (fan_in + fan_out))
        weights += [rng.uniform(-limit, limit, (fan_in, fan_out)), np.zeros((1, fan_out))]
    return weights


def losses(weights: Weights, X: Array) -> Array:
    """Gives the mean squared error of each row's reconstruction."""
    y = X.astype(weights[0].dtype)
    for place in range(0, len(weights), 2):
        z = y @ weights[place] + weights[place + 1]
        y = expit(z) if place == len(weights) - 2 else np.maximum(z, 0.0)
    mean: Array = ((X - y) ** 2).mean(axis=1)
    return mean


def batches(task: Task, training: Training) -> Array:
    """Lists the rows of each step: all in a new order each epoch; −1 fills the last batch."""
    rng, k = np.random.default_rng(task.seed), training.batch
    steps = -(-len(task.rows) // k)
    found = np.full((training.epochs, steps * k), -1)
    for epoch in found:
        epoch[: len(task.rows)] = rng.permutation(task.rows)
    return found.reshape(-1, k)


def fitted(
    X: Array,
    tasks: Sequence[Task],
    training: Training,
    tick: Callable[[], None] = lambda: None,
) -> list[Weights]:
    """Trains each network by Adam's steps on its own rows of X, in the type of X.

    Equal, to rounding, to training each alone: nothing of a network enters another's step, and
    each takes as many steps as its own rows make. All begin at once, so the networks still at
    work are at the same step. ``tick`` is called after each epoch of the longest. Needs PyTorch,
    and memory for the batches of all steps.
    """
    plans = [batches(task, training) for task in tasks]
    # The one with the most steps first: those still at work are always the first few.
    order = sorted(range(len(tasks)), key=lambda place: -len(plans[place]))
    weights = [tasks[place].weights for place in order]
    stack = Stack(X, weights, Reconstruction(), Adam(training.rate))
    ordered = [plans[place] for place in order]
    epoch = len(ordered[0]) // training.epochs
    stack.train(ordered, lambda taken: None if taken % epoch else tick())
    found = stack.weights()
    return [found[order.index(place)] for place in range(len(tasks))]
