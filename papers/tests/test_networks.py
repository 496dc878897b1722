"""Batched networks against PyTorch's own, each trained alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmgrove_papers.backpropagation import Classification, Momentum, Stack, Weights
from elmgrove_papers.federated import averaged
from elmgrove_papers.networks import Task, Training, batches, begin, fitted, losses
from support.laws import law_examples

torch: Any = pytest.importorskip("torch")
Array = NDArray[Any]
WIDTH = 6
SHALLOW, DEEP = Training((4,), 8, 3), Training((5, 3, 5), 4, 2, rate=0.01)


def _rows(count: int) -> Array:
    return np.random.default_rng(0).random((count, WIDTH))


def _task(rows: int, seed: int, training: Training) -> Task:
    chosen = np.random.default_rng(seed).choice(60, rows, replace=False)
    return Task(begin(WIDTH, training, (seed,)), chosen, (seed,))


def _alone(X: Array, task: Task, training: Training) -> Weights:
    """One network in PyTorch's words: modules, autograd, MSELoss and Adam."""
    net = torch.nn.Sequential(*_modules(task.weights)[:-1], torch.nn.Sigmoid())
    adam, loss = torch.optim.Adam(net.parameters(), lr=training.rate), torch.nn.MSELoss()
    for step in batches(task, training):
        x = torch.from_numpy(X[step[step >= 0]])
        adam.zero_grad()
        loss(net(x), x).backward()
        adam.step()
    return _weights(net)


def _modules(weights: Weights) -> list[Any]:
    """A linear layer and a ReLU for each two arrays."""
    modules = list[Any]()
    for W, b in zip(weights[::2], weights[1::2], strict=True):
        layer = torch.nn.Linear(*W.shape).double()
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(W.T))
            layer.bias.copy_(torch.from_numpy(b[0]))
        modules += [layer, torch.nn.ReLU()]
    return modules


def _weights(net: Any) -> Weights:
    linear = [module for module in net if isinstance(module, torch.nn.Linear)]
    return [
        array.detach().numpy()
        for layer in linear
        for array in (layer.weight.T, layer.bias[np.newaxis])
    ]


def _same(found: Weights, expected: Weights, tolerance: float = 1e-9) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@settings(max_examples=law_examples(20), deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    training=st.sampled_from([SHALLOW, DEEP]),
)
def test_all_at_once_is_each_alone_whatever_the_row_counts(
    sizes: list[int], training: Training
) -> None:
    X = _rows(60)
    tasks = [_task(size, seed, training) for seed, size in enumerate(sizes)]
    for task, found in zip(tasks, fitted(X, tasks, training), strict=True):
        _same(found, _alone(X, task, training))
        assert not np.allclose(found[0], task.weights[0])


def test_classifiers_are_pytorchs_with_cross_entropy_and_momentum() -> None:
    X, labels = _rows(60), np.arange(60) % WIDTH
    goal = Classification(torch.from_numpy(np.eye(WIDTH)[labels]))
    tasks = [_task(size, size, SHALLOW) for size in (40, 17)]
    plans = [batches(task, SHALLOW) for task in tasks]
    stack = Stack(X, [task.weights for task in tasks], goal, Momentum(0.1, 0.5))
    stack.train(plans)
    for task, plan, found in zip(tasks, plans, stack.weights(), strict=True):
        net = torch.nn.Sequential(*_modules(task.weights)[:-1])
        sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
        for step in plan:
            rows = step[step >= 0]
            sgd.zero_grad()
            output = net(torch.from_numpy(X[rows]))
            torch.nn.CrossEntropyLoss()(output, torch.from_numpy(labels[rows])).backward()
            sgd.step()
        _same(found, _weights(net))
        assert not np.allclose(found[0], task.weights[0])


def test_each_epoch_of_the_longest_ticks() -> None:
    ticks = list[int]()
    tasks = [_task(size, size, SHALLOW) for size in (5, 40, 17)]
    fitted(_rows(60), tasks, SHALLOW, lambda: ticks.append(1))
    assert len(ticks) == SHALLOW.epochs


def test_in_single_precision_it_is_the_same_to_its_rounding() -> None:
    X = _rows(60).astype(np.float32)
    tasks = [_task(size, size, SHALLOW) for size in (40, 17)]
    for task, found in zip(tasks, fitted(X, tasks, SHALLOW), strict=True):
        assert found[0].dtype == np.float32
        _same(found, _alone(X.astype(float), task, SHALLOW), 1e-5)


def test_an_epoch_has_each_row_once_in_an_order_of_its_own() -> None:
    task = _task(11, 1, SHALLOW)
    steps = batches(task, SHALLOW)
    assert steps.shape == (3 * 2, 8)
    epochs = steps.reshape(3, -1)
    for epoch in epochs:
        assert sorted(epoch[epoch >= 0].tolist()) == sorted(task.rows.tolist())
    assert (epochs[0] != epochs[1]).any()
    assert (batches(replace(task, seed=(2,)), SHALLOW) != steps).any()


def test_losses_are_pytorchs_mean_squared_errors() -> None:
    X = _rows(9)
    W1, b1, W2, b2 = (torch.from_numpy(a) for a in begin(WIDTH, SHALLOW, (1,)))
    y = torch.sigmoid(torch.relu(torch.from_numpy(X) @ W1 + b1) @ W2 + b2)
    expected = ((torch.from_numpy(X) - y) ** 2).mean(1).numpy()
    np.testing.assert_allclose(losses(begin(WIDTH, SHALLOW, (1,)), X), expected, rtol=1e-12)


def test_training_brings_the_loss_down() -> None:
    X, training = _rows(60) * [1, 0, 1, 0, 1, 0], replace(SHALLOW, epochs=200)
    task = _task(40, 3, training)
    (found,) = fitted(X, [task], training)
    assert losses(found, X).mean() < losses(task.weights, X).mean() / 2


def test_rounds_of_many_federations_are_those_of_each() -> None:
    X, sizes = _rows(60), ((30, 12), (9, 25), (16, 16))
    beginnings = [begin(WIDTH, SHALLOW, (place,)) for place in range(3)]
    tasks = {
        name: [
            replace(_task(pair[device], 10 * place + device, SHALLOW), weights=start)
            for place, (pair, start) in enumerate(zip(sizes, beginnings, strict=True))
        ]
        for device, name in enumerate("AB")
    }
    noted = dict[int, Any]()
    together = averaged(X, tasks, SHALLOW, 4, noted.__setitem__)
    assert (list(noted), noted[4]) == ([1, 2, 3, 4], together)
    for place, found in enumerate(together):
        alone = {name: [mine[place]] for name, mine in tasks.items()}
        _same(averaged(X, alone, SHALLOW, rounds=4)[0], found)
        _same(_fedavg(X, [mine[place] for mine in tasks.values()], 4), found)


def _fedavg(X: Array, devices: list[Task], rounds: int) -> Weights:
    """FedAvg as it is written: each from the global weights, then Σ n_k w_k / n."""
    weights = devices[0].weights
    for number in range(1, rounds + 1):
        local = [
            _alone(X, Task(weights, task.rows, (*task.seed, number)), SHALLOW) for task in devices
        ]
        n = sum(len(task.rows) for task in devices)
        weights = [
            sum(len(task.rows) / n * mine[place] for task, mine in zip(devices, local, strict=True))
            for place in range(len(weights))
        ]
    return weights
