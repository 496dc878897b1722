"""Published data sets, read in the layout in which they are published. Nothing is downloaded."""

from elmgrove.papers.data.celeba import Celebrity, celebrities
from elmgrove.papers.data.dcase import Machine, machines
from elmgrove.papers.data.fans import Recording, recordings
from elmgrove.papers.data.har import har, har_scaled
from elmgrove.papers.data.labelled import Labelled
from elmgrove.papers.data.mnist import mnist
from elmgrove.papers.data.uah import Drive, drives

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
