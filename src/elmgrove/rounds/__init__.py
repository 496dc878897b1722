"""Federations in rounds: rules, clients and messages; in this process, on a server, on Flower."""

from elmgrove.rounds.agenda import Agenda, BetweenRounds, Opening
from elmgrove.rounds.average import AverageRule
from elmgrove.rounds.balanced import (
    CLASSES_FORMAT,
    BalancedSumClient,
    BalancedSumRule,
    ClassReply,
)
from elmgrove.rounds.classifier import CLASSIFIER_FORMAT, CompactClassifier
from elmgrove.rounds.clients import AverageClient, Client, DeviceClient, Loss, SumClient
from elmgrove.rounds.closing import Closing, Replies, close_round
from elmgrove.rounds.compact import COMPACT_FORMAT, LARGEST, CompactModel, Quantized
from elmgrove.rounds.evaluation import ACCURACY, ERROR, EXAM_FORMAT, Evaluation, Exam, GlobalModel
from elmgrove.rounds.groups import GroupRule
from elmgrove.rounds.local import run_here, run_plan
from elmgrove.rounds.loop import NOTHING_NEW, Ask, Round, drawn, reason, run_rounds
from elmgrove.rounds.messages import Reply, Task, contribution_from_bytes
from elmgrove.rounds.node import NodeClient
from elmgrove.rounds.plan import Plan, RuleName
from elmgrove.rounds.predictor import PREDICTOR_FORMAT, Predictor
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule, SumRule
from elmgrove.rounds.target import Target

__all__ = [
    "ACCURACY",
    "CLASSES_FORMAT",
    "CLASSIFIER_FORMAT",
    "COMPACT_FORMAT",
    "ERROR",
    "EXAM_FORMAT",
    "LARGEST",
    "NOTHING_NEW",
    "PREDICTOR_FORMAT",
    "Agenda",
    "Ask",
    "AverageClient",
    "AverageRule",
    "BalancedSumClient",
    "BalancedSumRule",
    "BetweenRounds",
    "ClassReply",
    "Client",
    "Closing",
    "CompactClassifier",
    "CompactModel",
    "Delivery",
    "DeviceClient",
    "Evaluation",
    "Exam",
    "GlobalModel",
    "GroupRule",
    "Loss",
    "NodeClient",
    "Opening",
    "Plan",
    "Predictor",
    "Quantized",
    "Replies",
    "Reply",
    "Round",
    "RoundReport",
    "RoundRule",
    "RuleName",
    "SumClient",
    "SumRule",
    "Target",
    "Task",
    "close_round",
    "contribution_from_bytes",
    "drawn",
    "reason",
    "run_here",
    "run_plan",
    "run_rounds",
]
