"""BP-NN3 one row at a time, as a device would run it, and its messages (PyTorch)."""

from collections.abc import Sequence

import numpy as np

from elmgrove.algebra import Array
from elmgrove.federation import seal, unseal
from elmgrove_papers import require_package
from elmgrove_papers.backpropagation import Weights
from elmgrove_papers.networks import Training, begin

FORMAT = "bp-nn3"


class OnlineNetwork:
    """An autoencoder that Adam trains by batches of one row (k = 1)."""

    def __init__(self, width: int, training: Training, seed: int) -> None:
        self._torch = torch = require_package("torch")
        nn, units = torch.nn, training.hidden[0]
        self._net = nn.Sequential(
            nn.Linear(width, units), nn.ReLU(), nn.Linear(units, width), nn.Sigmoid()
        )
        self.replace(begin(width, training, (seed,)))
        # The fastest of PyTorch's own.
        self._adam = torch.optim.Adam(self._net.parameters(), lr=training.rate, fused=True)
        self._loss = nn.MSELoss()

    def learn_one(self, row: Array) -> None:
        """Takes one step of Adam."""
        x = self._torch.from_numpy(row)
        self._adam.zero_grad()
        self._loss(self._net(x), x).backward()
        self._adam.step()

    def score_one(self, row: Array) -> float:
        """Gives the mean squared error of the row's reconstruction."""
        with self._torch.inference_mode():
            x = self._torch.from_numpy(row)
            return float(self._loss(self._net(x), x))

    def weights(self) -> Weights:
        """Gives W₁ (inputs × units), b₁ (1 × units), W₂, b₂."""
        arrays = [parameter.detach().numpy() for parameter in self._net.parameters()]
        return [np.atleast_2d(array.T).copy() for array in arrays]

    def replace(self, weights: Weights) -> None:
        """Goes on from these weights."""
        with self._torch.no_grad():
            for parameter, array in zip(self._net.parameters(), weights, strict=True):
                fitting = np.ascontiguousarray(array.T.reshape(parameter.shape), np.float32)
                parameter.copy_(self._torch.from_numpy(fitting))


def packed(rows: int, weights: Sequence[Array]) -> bytes:
    """Makes a message of BP-NN3-FL: weights in float32, and how many rows they were trained on."""
    arrays = {str(place): array.astype(np.float32) for place, array in enumerate(weights)}
    return seal(FORMAT, {"rows": rows}, arrays)


def unpacked(blob: bytes) -> tuple[int, Weights]:
    """Reads the rows and the weights from a message that ``packed`` made."""
    fields, arrays = unseal(FORMAT, blob)
    return fields["rows"], [arrays[str(place)] for place in range(len(arrays))]
