"""MLMG: multi-local and multi-global model aggregation (Qin and Kondo 2021)."""

from elmgrove_papers.figure import Figure
from elmgrove_papers.mlmg import drawing
from elmgrove_papers.mlmg.comparison import (
    comparison,
    comparison_of_faces,
    comparison_of_sounds,
)
from elmgrove_papers.mlmg.fans import cooling_fans
from elmgrove_papers.mlmg.others import celeba, dcase
from elmgrove_papers.mlmg.pairs import har_pairs, mnist_pairs
from elmgrove_papers.mlmg.rules import assignment
from elmgrove_papers.mlmg.table2 import table2

FIGURES = (
    Figure("table2", "Table II on MNIST, with ROC-AUC, and with patterns", table2, drawing.table),
    Figure("comparison", "Single, multi-global, MLMG", comparison, drawing.comparison, (12, 9)),
    Figure(
        "fans", "Cooling fans; one joins late, one leaves", cooling_fans, drawing.fans, (14, 12)
    ),
    Figure("mnist-pairs", "Two devices, all pairs of digits", mnist_pairs, drawing.pairs),
    Figure("har-pairs", "Two devices, all pairs of activities", har_pairs, drawing.pairs),
    Figure("assignment", "Nearest centroid or lowest loss", assignment, drawing.settings, (14, 5)),
    Figure("celeba", "Table II on CelebA", celeba, drawing.table),
    Figure("dcase", "Table II on DCASE 2020's sounds", dcase, drawing.table),
    Figure(
        "comparison-celeba",
        "Single, multi-global, MLMG on CelebA",
        comparison_of_faces,
        drawing.comparison,
        (14, 6),
    ),
    Figure(
        "comparison-dcase",
        "Single, multi-global, MLMG on DCASE 2020's sounds",
        comparison_of_sounds,
        drawing.comparison,
        (14, 6),
    ),
)
