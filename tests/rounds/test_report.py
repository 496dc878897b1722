"""Reports of rounds and of the delivery: they pass through JSON unchanged."""

import json

from elmgrove.rounds.clients import Loss
from elmgrove.rounds.evaluation import Evaluation
from elmgrove.rounds.report import Delivery, RoundReport


def test_reports_and_deliveries_survive_json() -> None:
    for evaluation in (
        None,
        Evaluation("accuracy", 0.5, 8),
        Evaluation("error", 2.0, 8, (1.0, 3.0)),
    ):
        report = RoundReport(2, ("a", "b"), ("a",), {"b": "late"}, 10, 20, 0.5, evaluation)
        assert RoundReport.from_fields(json.loads(json.dumps(report.fields))) == report
    delivery = Delivery({"a": Loss(0.5, 3)}, {"b": "late"}, 10, 0.5)
    assert Delivery.from_fields(json.loads(json.dumps(delivery.fields))) == delivery
    assert delivery.loss == 0.5
