"""Federations in rounds: one set of rules and messages, run in this process or on Flower."""

from elmgrove.rounds.classifier import CompactClassifier
from elmgrove.rounds.clients import Averaged, Device, Loss, Summed, Worker
from elmgrove.rounds.compact import CompactModel, Quantized
from elmgrove.rounds.local import run
from elmgrove.rounds.messages import Reply, Task
from elmgrove.rounds.plan import Plan
from elmgrove.rounds.report import Delivery, Report
from elmgrove.rounds.rules import Averaging, Federation, Matching, Summing

__all__ = [
    "Averaged",
    "Averaging",
    "CompactClassifier",
    "CompactModel",
    "Delivery",
    "Device",
    "Federation",
    "Loss",
    "Matching",
    "Plan",
    "Quantized",
    "Reply",
    "Report",
    "Summed",
    "Summing",
    "Task",
    "Worker",
    "run",
]
