"""Table II's other data sets: faces, and the sounds of machines."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput
from elmgrove_papers.data import Celebrity, Machine, celebrities, machines
from elmgrove_papers.data.celeba import picture
from elmgrove_papers.data.dcase import sound
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.mlmg.clients import RULE, Client, basis, rare_together, third_left_out
from elmgrove_papers.mlmg.table2 import beside_the_paper, federation_rows

Array = NDArray[np.float64]
PRINTED: dict[str, dict[str, tuple[float, ...]]] = {
    "celeba": {
        "Centralized": (0.929, 0.86, 0.893, 0.815),
        "FedAvg": (0.913, 0.777, 0.839, 0.733),
        "E²LM": (0.917, 0.826, 0.87, 0.778),
    },
    "dcase": {
        "Centralized": (0.901, 0.886, 0.894, 0.811),
        "FedAvg": (0.889, 0.698, 0.782, 0.65),
        "E²LM": (0.901, 0.882, 0.892, 0.807),
    },
}
#: Rows of a recording that are learned or judged; all 309 of all recordings would take 31 GB.
FRAMES = 8
CELEBRITIES = 100
#: The part of a figure's numbers that says how much there is of what.
ITEMS = "items"


def celeba(run: Run) -> Numbers:
    """Tries 100 celebrities at random: smiling is normal; one in nine smiles is for tests."""
    return _table("celeba", faces(run))


def dcase(run: Run) -> Numbers:
    """Tries all machines; quick: 20 recordings of each part of each machine."""
    return _table("dcase", sounds(run))


def faces(run: Run) -> list[Client]:
    """Makes a client of each of 100 celebrities; quick: of 20."""
    rng = np.random.default_rng(SEED)
    # A smile to test with, one to learn, and one to say where anomalous begins.
    usable = [one for one in celebrities(run.data) if len(one.smiling) > 2 and one.serious]
    if len(usable) < 2:
        raise BadInput("CelebA: fewer than two celebrities with three smiles and a serious picture")
    count = min(run.at_most(CELEBRITIES, 20), len(usable))
    chosen = rng.choice(len(usable), count, replace=False)
    parts = [_faces(usable[i]) for i in run.track(sorted(chosen), "Faces")]
    return rare_together(_finished(parts))


def sounds(run: Run) -> list[Client]:
    """Makes a client of each machine; quick: of 20 recordings of each part."""
    most = run.at_most(10**6, 20)
    parts = [_sounds(one, most) for one in run.track(machines(run.data), "Sounds")]
    if len(parts) < 2:
        raise BadInput("DCASE: one machine only; a federation needs two")
    return _finished(parts)


def _table(name: str, clients: Sequence[Client]) -> Numbers:
    made = basis(name, clients[0].train.shape[1])
    rows = federation_rows(clients, made, (RULE,))
    return {name: beside_the_paper(rows, PRINTED[name]), ITEMS: counted(clients)}


def counted(clients: Sequence[Client]) -> dict[str, int]:
    """Counts the clients, and what they learn and are tested with: pictures, or recordings."""
    parts = {
        "learned": [client.train for client in clients],
        "left out, for thresholds": [client.left_out for client in clients],
        "normal in tests": [client.own for client in clients],
        "anomalous in decisions": [client.rare for client in clients],
        "anomalous in ROC-AUC": [client.anomalies for client in clients],
    }
    sizes = {name: sum(map(len, rows)) // clients[0].item for name, rows in parts.items()}
    return {"clients": len(clients), **sizes}


def _faces(one: Celebrity) -> Client:
    smiling = np.stack([picture(path) for path in one.smiling])
    cut = max(len(smiling) // 9, 1)
    serious = np.stack([picture(path) for path in one.serious])
    return Client(one.name, smiling[cut:], smiling[:cut], smiling[:0], serious)


def _sounds(one: Machine, most: int) -> Client:
    train, normal, anomalous = (
        _frames(paths[:most]) for paths in (one.train, one.normal, one.anomalous)
    )
    return Client(one.name, train, normal, normal[:0], anomalous, FRAMES)


def _frames(paths: Sequence[Path]) -> Array:
    """Some rows of each recording, evenly spaced."""
    blocks = []
    for path in paths:
        rows = sound(path)
        blocks.append(rows[np.linspace(0, len(rows) - 1, FRAMES).astype(np.intp)])
    return np.vstack(blocks)


def _finished(parts: Sequence[Client]) -> list[Client]:
    """Each with the next one's normal test rows as its peers', and a third left out."""
    following = [*parts[1:], parts[0]]
    return [
        third_left_out(replace(one, peers=other.own))
        for one, other in zip(parts, following, strict=True)
    ]
