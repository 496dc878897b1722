"""The Flower app behind ``elmgrove federate --engine flower``: runs the plan of a folder.

Flower imports it in processes of its own; what comes of the plan is left in files of that folder.
"""

import json
from pathlib import Path

from flwr.app import Context

from elmgrove.errors import BadInput
from elmgrove.rounds.clients import Client
from elmgrove.rounds.flower.apps import Conclusion, client_app, server_app
from elmgrove.rounds.plan import Plan
from elmgrove.rounds.report import RoundReport
from elmgrove.storage.disk import write

#: Files that the app leaves in the folder.
REPORTS = "reports.jsonl"
RESULT = "merged"
DELIVERY = "delivery.json"
FAILURE = "failure"


def _folder(context: Context) -> Path:
    return Path(str(context.run_config["folder"]))


def _plan(context: Context) -> Plan:
    return Plan.load(_folder(context))


def _client(context: Context, memory: bytes) -> Client:
    plan = _plan(context)
    return plan.client(sorted(plan.rows)[int(context.node_config["partition-id"])], memory)


def _tell(context: Context, report: RoundReport) -> None:
    with (_folder(context) / REPORTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(report.fields) + "\n")


def _done(context: Context, outcome: Conclusion) -> None:
    folder = _folder(context)
    write(folder / DELIVERY, json.dumps(outcome.delivery.fields).encode())
    try:
        write(folder / RESULT, outcome.rule.merged().to_bytes())
    except BadInput as error:
        write(folder / FAILURE, str(error).encode())


server = server_app(
    lambda context: _plan(context).round_rule(), _done, _tell, lambda context: _plan(context).exam
)
client = client_app(_client)
