"""Ito 2021: an on-device federated learning approach for cooperative model update."""

from elmgrove.papers.figure import Figure

FIGURES: tuple[Figure, ...] = ()
