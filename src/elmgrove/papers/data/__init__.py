"""Published data sets, read in the layout in which they are published. Nothing is downloaded."""

from elmgrove.papers.data.celeba import Celebrity, celebrities
from elmgrove.papers.data.dcase import Machine, machines
from elmgrove.papers.data.fans import Recording, recordings
from elmgrove.papers.data.har import har
from elmgrove.papers.data.labelled import Labelled
from elmgrove.papers.data.mnist import mnist

__all__ = [
    "Celebrity",
    "Labelled",
    "Machine",
    "Recording",
    "celebrities",
    "har",
    "machines",
    "mnist",
    "recordings",
]
