"""Other libraries that do such work, each called for one row at a time in its own way."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.clock import Case
from benchmarks.literal import LiteralOSELM
from benchmarks.rows import INPUTS, SEED, Matrix, rows, stream
from benchmarks.verdicts import trees
from elmgrove import HiddenLayer

Cases = dict[str, Case]


def literal(units: int) -> Cases:
    """Makes the papers' equations in NumPy, as written and grouped with care."""
    layer = HiddenLayer(INPUTS, units, seed=SEED)
    written, careful = (LiteralOSELM(layer, rows(2 * units)) for _ in range(2))
    row = _as(lambda x: x[np.newaxis])
    return {
        "literal learn": Case(row, written.learn_one),
        "careful learn": Case(row, careful.learn_one_with_care),
        "literal score": Case(row, written.score_one),
    }


def pyoselm(units: int) -> Cases:
    """Makes pyoselm, in the faster of its two ways (the default inverts a matrix every row)."""
    from pyoselm import OSELMRegressor

    model = OSELMRegressor(units, lambda a: a, use_woodbury=True, random_state=SEED)
    model.fit(rows(2 * units), rows(2 * units))
    row = _as(lambda x: x[np.newaxis])
    return {
        "pyoselm learn": Case(row, lambda x: model.partial_fit(x, x)),
        "pyoselm score": Case(row, lambda x: float(np.mean((x - model.predict(x)) ** 2))),
    }


def pytorch(units: int) -> Cases:
    """Makes a three-layer autoencoder trained by Adam, the papers' BP-NN3, one row a step."""
    # By name: the checks of types run where PyTorch is not installed.
    torch: Any = import_module("torch")
    nn = torch.nn
    torch.manual_seed(SEED)
    net = nn.Sequential(nn.Linear(INPUTS, units), nn.ReLU(), nn.Linear(units, INPUTS), nn.Sigmoid())
    adam, loss = torch.optim.Adam(net.parameters()), nn.MSELoss()

    def learn(x: Any) -> None:
        adam.zero_grad()
        loss(net(x), x).backward()
        adam.step()

    def score(x: Any) -> float:
        with torch.inference_mode():
            return float(loss(net(x), x))

    row = _as(lambda x: torch.from_numpy(x[np.newaxis].astype(np.float32)))
    return {"PyTorch learn": Case(row, learn), "PyTorch score": Case(row, score)}


def half_space_trees(units: int) -> Cases:
    """Makes River's HalfSpaceTrees with its defaults; it has no hidden units."""
    from river.anomaly import HalfSpaceTrees

    trees: Any = HalfSpaceTrees(seed=SEED)
    names = [f"column {i}" for i in range(INPUTS)]
    row = _as(lambda x: dict(zip(names, x.tolist(), strict=True)))
    for _ in range(2 * trees.window_size):
        trees.learn_one(row())

    def both(x: dict[str, float]) -> float:
        trees.learn_one(x)
        return float(trees.score_one(x))

    def from_array(x: Matrix) -> float:
        return both(dict(zip(names, x.tolist(), strict=True)))

    return {
        "HalfSpaceTrees learn": Case(row, trees.learn_one),
        "HalfSpaceTrees score": Case(row, trees.score_one),
        "HalfSpaceTrees both": Case(row, both),
        "HalfSpaceTrees both, from an array": Case(_as(lambda x: x), from_array),
    }


def _as(form: Callable[[Matrix], Any]) -> Callable[[], Any]:
    """Gives the next row each time, in the form that a peer takes."""
    source: Iterator[Matrix] = stream()
    return lambda: form(next(source))


PEERS: dict[str, Callable[[int], Cases]] = {
    "literal": literal,
    "pyoselm": pyoselm,
    "PyTorch": pytorch,
    "HalfSpaceTrees": half_space_trees,
    "HalfSpaceTrees by inputs": trees,
}
