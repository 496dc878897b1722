"""Ito 2021: an on-device federated learning approach for cooperative model update."""

from elmgrove_papers.figure import Figure
from elmgrove_papers.ito2021 import drawing
from elmgrove_papers.ito2021.activities import figure7
from elmgrove_papers.ito2021.communication import communication
from elmgrove_papers.ito2021.driving import figure6
from elmgrove_papers.ito2021.latency import table4
from elmgrove_papers.ito2021.map_figures import HEAT_MAPS
from elmgrove_papers.ito2021.round_by_round import rounds
from elmgrove_papers.ito2021.sequential import figure18

FIGURES = (
    Figure("figure6", "Figure 6: losses before and after, driving", figure6, drawing.losses),
    Figure("figure7", "Figure 7: losses before and after, HAR", figure7, drawing.losses),
    *HEAT_MAPS,
    Figure("rounds", "BP-NN3-FL round by round, HAR", rounds, drawing.rounds),
    Figure("table4", "Table 4: latencies", table4, drawing.latencies, (13, 5), reads_data=False),
    Figure("figure18", "Figure 18: merging or sequential updates", figure18, drawing.sequential),
    Figure(
        *("communication", "§5.4: bytes up and down", communication, drawing.communication),
        reads_data=False,
    ),
)
