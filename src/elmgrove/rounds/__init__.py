"""Federations in rounds: rules, clients and messages; in this process or on Flower."""

from elmgrove.rounds.clients import AverageClient, Client, SumClient
from elmgrove.rounds.compact import CompactClassifier, CompactModel, Quantized
from elmgrove.rounds.evaluation import Exam, GlobalModel
from elmgrove.rounds.loop import InProcess, RoundReport, run_rounds
from elmgrove.rounds.messages import RoundMessage
from elmgrove.rounds.plan import Plan, run_plan
from elmgrove.rounds.predictor import Predictor, Projection, Target
from elmgrove.rounds.rules import AverageRule, GroupRule, RoundRule, SumRule

__all__ = [
    "AverageClient",
    "AverageRule",
    "Client",
    "CompactClassifier",
    "CompactModel",
    "Exam",
    "GlobalModel",
    "GroupRule",
    "InProcess",
    "Plan",
    "Predictor",
    "Projection",
    "Quantized",
    "RoundMessage",
    "RoundReport",
    "RoundRule",
    "SumClient",
    "SumRule",
    "Target",
    "run_plan",
    "run_rounds",
]
