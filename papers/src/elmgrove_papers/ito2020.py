"""Ito 2020: the same cooperative model update, shown on driving alone."""

from elmgrove_papers.figure import Figure
from elmgrove_papers.ito2021 import drawing
from elmgrove_papers.ito2021.driving import figure5_of_2020

FIGURES = (
    Figure("figure5", "Figure 5: before and after, driving", figure5_of_2020, drawing.losses),
)
