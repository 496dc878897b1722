"""Federations in rounds: rules, clients and messages; in this process or on Flower."""

from elmgrove.rounds.balanced import (
    CLASSES_FORMAT,
    BalancedSumClient,
    BalancedSumRule,
    ClassReply,
)
from elmgrove.rounds.clients import AverageClient, Client, DeviceClient, Loss, NodeClient, SumClient
from elmgrove.rounds.compact import (
    CLASSIFIER_FORMAT,
    COMPACT_FORMAT,
    LARGEST,
    CompactClassifier,
    CompactModel,
    Quantized,
)
from elmgrove.rounds.evaluation import ACCURACY, ERROR, EXAM_FORMAT, Evaluation, Exam, GlobalModel
from elmgrove.rounds.local import run_here, run_plan
from elmgrove.rounds.loop import Ask, Round, run_rounds
from elmgrove.rounds.messages import Reply, Task, contribution_from_bytes
from elmgrove.rounds.plan import Plan, RuleName
from elmgrove.rounds.predictor import PREDICTOR_FORMAT, Predictor, Target
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import AverageRule, GroupRule, RoundRule, SumRule

__all__ = [
    "ACCURACY",
    "CLASSES_FORMAT",
    "CLASSIFIER_FORMAT",
    "COMPACT_FORMAT",
    "ERROR",
    "EXAM_FORMAT",
    "LARGEST",
    "PREDICTOR_FORMAT",
    "Ask",
    "AverageClient",
    "AverageRule",
    "BalancedSumClient",
    "BalancedSumRule",
    "ClassReply",
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
    "NodeClient",
    "Plan",
    "Predictor",
    "Quantized",
    "Reply",
    "Round",
    "RoundReport",
    "RoundRule",
    "RuleName",
    "SumClient",
    "SumRule",
    "Target",
    "Task",
    "contribution_from_bytes",
    "run_here",
    "run_plan",
    "run_rounds",
]
