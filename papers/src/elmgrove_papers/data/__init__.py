"""Published data sets, read in the layout in which they are published. Nothing is downloaded."""

from elmgrove_papers.data.celeba import Celebrity, celebrities
from elmgrove_papers.data.dcase import Machine, machines
from elmgrove_papers.data.fans import Recording, recordings
from elmgrove_papers.data.har import har, har_scaled
from elmgrove_papers.data.labelled import Labelled
from elmgrove_papers.data.mnist import mnist
from elmgrove_papers.data.uah import Drive, drives

__all__ = [
    "Celebrity",
    "Drive",
    "Labelled",
    "Machine",
    "Recording",
    "celebrities",
    "drives",
    "har",
    "har_scaled",
    "machines",
    "mnist",
    "recordings",
]
