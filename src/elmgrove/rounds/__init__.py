"""Federations in rounds: rules, clients and messages; in this process or on Flower."""

from elmgrove.rounds.balanced import BalancedSumRule, ClassReply
from elmgrove.rounds.clients import AverageClient, Client, DeviceClient, Loss, NodeClient, SumClient
from elmgrove.rounds.compact import CompactClassifier, CompactModel, Quantized
from elmgrove.rounds.evaluation import ERROR, Evaluation, Exam, GlobalModel
from elmgrove.rounds.local import run_here
from elmgrove.rounds.loop import Ask, Round, run_rounds
from elmgrove.rounds.predictor import Predictor, Target
from elmgrove.rounds.report import RoundReport
from elmgrove.rounds.rules import RoundRule, SumRule

__all__ = [
    "ERROR",
    "Ask",
    "AverageClient",
    "BalancedSumRule",
    "ClassReply",
    "Client",
    "CompactClassifier",
    "CompactModel",
    "DeviceClient",
    "Evaluation",
    "Exam",
    "GlobalModel",
    "Loss",
    "NodeClient",
    "Predictor",
    "Quantized",
    "Round",
    "RoundReport",
    "RoundRule",
    "SumClient",
    "SumRule",
    "Target",
    "run_here",
    "run_rounds",
]
