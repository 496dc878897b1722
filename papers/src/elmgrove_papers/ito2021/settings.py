"""What Ito 2021 states of its experiments (Table 3, §5.3), and what had to be chosen."""

from dataclasses import dataclass, replace

from elmgrove.algebra import Basis, HiddenLayer
from elmgrove.detector import PatternRule
from elmgrove_papers.figure import SEED

#: Adam's, as TensorFlow 1.12 and PyTorch have it; the paper states none.
RATE = 1e-3


@dataclass(frozen=True)
class Training:
    """A network's hidden layers (ReLU, then a sigmoid as output), and how Adam trains it on MSE."""

    hidden: tuple[int, ...]
    batch: int
    epochs: int
    rate: float = RATE


@dataclass(frozen=True)
class Setting:
    """A data set's lines of Table 3."""

    activation: str
    units: int
    bp_nn3: Training
    bp_nn5: Training

    def basis(self, width: int, seed: int = SEED) -> Basis:
        """The OS-ELM autoencoder's layer, which both devices share: uniform weights."""
        return Basis(HiddenLayer(width, self.units, self.activation, "uniform", seed=seed), width)


HAR = Setting("identity", 128, Training((256,), 8, 20), Training((128, 256, 128), 8, 20))
MNIST = Setting("identity", 64, Training((64,), 32, 5), Training((64, 32, 64), 8, 10))
#: UAH-DriveSet has OS-ELM alone: sigmoid, 16 units.
DRIVING_ACTIVATION, DRIVING_UNITS = "sigmoid", 16
#: Communication rounds R of BP-NN3-FL. Epochs a round are not stated: one.
ROUNDS, ROUND_EPOCHS = 50, 1
#: §5.3: samples to learn from; anomalies as a share of the normal test rows.
TRAINING_SHARE, ANOMALY_SHARE = 0.8, 0.1
#: Our own row: a model for each pattern. Both are normal, so the other's has no handicap.
EQUAL = PatternRule(patterns=1, handicap=0.0)
#: And three models for each.
THREE = replace(EQUAL, patterns=3)
