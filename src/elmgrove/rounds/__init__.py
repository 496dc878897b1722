"""Federations in rounds: rules, clients and messages, run in this process or on Flower."""

from elmgrove.rounds.average import AverageRule
from elmgrove.rounds.classifier import CLASSIFIER_FORMAT, CompactClassifier
from elmgrove.rounds.clients import AverageClient, Client, DeviceClient, Loss, SumClient
from elmgrove.rounds.compact import COMPACT_FORMAT, LARGEST, CompactModel, Quantized
from elmgrove.rounds.evaluation import ACCURACY, ERROR, EXAM_FORMAT, Evaluation, Exam, GlobalModel
from elmgrove.rounds.groups import GroupRule
from elmgrove.rounds.local import run_here, run_plan
from elmgrove.rounds.loop import Ask, Round, run_rounds
from elmgrove.rounds.messages import Reply, Task
from elmgrove.rounds.plan import Plan, RuleName
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule, SumRule

__all__ = [
    "ACCURACY",
    "CLASSIFIER_FORMAT",
    "COMPACT_FORMAT",
    "ERROR",
    "EXAM_FORMAT",
    "LARGEST",
    "Ask",
    "AverageClient",
    "AverageRule",
    "Client",
    "CompactClassifier",
    "CompactModel",
    "Delivery",
    "DeviceClient",
    "Evaluation",
    "Exam",
    "GlobalModel",
    "GroupRule",
    "Loss",
    "Plan",
    "Quantized",
    "Reply",
    "Round",
    "RoundReport",
    "RoundRule",
    "RuleName",
    "SumClient",
    "SumRule",
    "Task",
    "run_here",
    "run_plan",
    "run_rounds",
]
