"""Papers on which Ito's and MLMG's rest: Ito 2019, ONLAD and Sunaga 2023, a figure of each."""

from elmgrove_papers.earlier import drawing
from elmgrove_papers.earlier.forgetting import forgetting
from elmgrove_papers.earlier.rooms import rooms
from elmgrove_papers.earlier.tuning import instances
from elmgrove_papers.figure import Figure

ITO2019 = (
    Figure(
        "instances",
        "The number of instances, tuned at run time",
        instances,
        drawing.instances,
        (13, 8),
    ),
)
ONLAD = (
    Figure(
        "forgetting",
        "What is normal changes: forgetting or not",
        forgetting,
        drawing.forgetting,
        (13, 8),
    ),
)
SUNAGA2023 = (
    Figure(
        "rooms",
        "Trained in one room, deployed in another, retrained",
        rooms,
        drawing.rooms,
        (15, 5.5),
    ),
)
