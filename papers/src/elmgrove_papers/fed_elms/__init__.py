"""Fed-ELMS: a federated extreme learning machine system, by averaging in rounds."""

from elmgrove_papers.fed_elms import drawing
from elmgrove_papers.fed_elms.figures import figure4, figure5, table1
from elmgrove_papers.fed_elms.imbalance import imbalanced
from elmgrove_papers.fed_elms.settings import SEED
from elmgrove_papers.figure import Figure

FIGURES = (
    Figure(
        "figure4",
        "Figure 4: update frequency and hidden units",
        figure4,
        drawing.figure4,
        seed=SEED,
    ),
    Figure(
        "figure5",
        "Figure 5: centralized, Fed-ELMS, exact merging",
        figure5,
        drawing.figure5,
        seed=SEED,
    ),
    Figure(
        "table1", "Table I and Figure 6: against Fed-NN", table1, drawing.figure6, (13, 5), SEED
    ),
    Figure(
        "imbalanced",
        "Not in the paper: unequal clients and classes, by three rules",
        imbalanced,
        drawing.imbalanced,
        (11, 5),
        SEED,
    ),
)
