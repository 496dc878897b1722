"""What Fed-ELMS states of its experiments, and what had to be chosen."""

import math

from elmgrove.algebra import HiddenLayer

#: Table I: hidden units, accuracy in % and updating time in s.
FED_ELMS = {
    50: (74.4, 1.72),
    100: (83.6, 2.58),
    200: (88.6, 3.51),
    500: (92.1, 7.48),
    1000: (92.6, 25.34),
}
FED_NN = {
    14: (83.5, 2.57),
    35: (86.2, 2.91),
    95: (87.6, 3.76),
    430: (89.2, 10.50),
    1504: (90.0, 27.30),
}
#: Images of each class in the server's initial batch, and in a client's two blocks.
INITIAL, BLOCK = 120, 500
VARIANCE = 0.9
#: The paper states neither the number of clients nor C, the share of them that takes part in a
#: round: all blocks that MNIST has, and all of the clients.
CLIENTS = 56
#: Updates that the table and Figure 5 split each client's rows into; the paper states none.
ROUNDS = 5
SEED = 0
#: Seeds of division and layer that Figure 5 is repeated with.
SEEDS = 5


def layer(inputs: int, units: int, seed: int = SEED) -> HiddenLayer:
    """Makes the hardware's layer: ±1 from a shift register, and ReLU (IV-C)."""
    return HiddenLayer(inputs, units, "relu", "binary", seed=seed + 1)


def formula_bits(L: int, D: int, M: int) -> int:
    """Computes the left side of (14): what a model of Fed-ELMS is said to cost, in bits.

    A bit for each entry of P and of α, and 8 for each of β. Taking P at one bit is what makes
    the table's sizes come out; the paper does not say how it would be sent so. α follows from a
    seed and need not be sent at all; b is not counted.
    """
    return L * L + (D + 8 * M) * L


def equal_cost(L: int, D: int, M: int) -> int:
    """Computes L_NN of (14): the hidden units of a network of 8-bit weights with the same cost.

    >>> [equal_cost(L, 87, 10) for L in FED_ELMS]
    [14, 35, 95, 430, 1504]
    """
    return math.ceil(formula_bits(L, D, M) / (8 * (D + M)))
