"""Federations in rounds: one set of rules and messages, run in this process or on Flower."""

from elmgrove.engines.averaged import Averaged
from elmgrove.engines.averaging import Averaging
from elmgrove.engines.delivery import Delivery
from elmgrove.engines.devices import Device
from elmgrove.engines.federation import Federation
from elmgrove.engines.local import run
from elmgrove.engines.matching import Matching
from elmgrove.engines.plan import Plan
from elmgrove.engines.reply import Reply
from elmgrove.engines.report import Report
from elmgrove.engines.summed import Summed
from elmgrove.engines.summing import Summing
from elmgrove.engines.task import Task
from elmgrove.engines.worker import Loss, Worker

__all__ = [
    "Averaged",
    "Averaging",
    "Delivery",
    "Device",
    "Federation",
    "Loss",
    "Matching",
    "Plan",
    "Reply",
    "Report",
    "Summed",
    "Summing",
    "Task",
    "Worker",
    "run",
]
