"""What Ito 2021 states of its experiments (Table 3, §5.3), and what had to be chosen."""

from dataclasses import dataclass, replace

from elmgrove.algebra import Basis, HiddenLayer
from elmgrove.detector import PatternRule
from elmgrove_papers.figure import SEED
from elmgrove_papers.networks import Training


@dataclass(frozen=True)
class PairsSetting:
    """A data set's lines of Table 3."""

    activation: str
    units: int
    bp_nn3: Training
    bp_nn5: Training

    def basis(self, width: int, seed: int = SEED) -> Basis:
        """Makes the OS-ELM autoencoder's layer, which both devices share: uniform weights."""
        layer = HiddenLayer(width, self.units, self.activation, "uniform", seed=seed)
        return Basis(layer, width, score="loss")


HAR = PairsSetting("identity", 128, Training((256,), 8, 20), Training((128, 256, 128), 8, 20))
MNIST = PairsSetting("identity", 64, Training((64,), 32, 5), Training((64, 32, 64), 8, 10))
#: UAH-DriveSet has OS-ELM alone: sigmoid, 16 units.
DRIVING_ACTIVATION, DRIVING_UNITS = "sigmoid", 16
#: Communication rounds R of BP-NN3-FL. Epochs a round are not stated: one.
ROUNDS, ROUND_EPOCHS = 50, 1
#: Our own row: a model for each pattern. Both are normal, and count alike.
EQUAL = PatternRule(patterns=1)
#: And three models for each.
THREE = replace(EQUAL, patterns=3)
