"""What runs once: it asks the fans, adds up what they say, and saves the model of all rows."""

from pathlib import Path
from typing import Any

from flwr.app import Context

from elmgrove import Basis, HiddenLayer
from elmgrove.federation import Charter
from elmgrove.rounds import RoundReport, SumRule
from elmgrove.rounds.flower import Outcome, server_app
from elmgrove.storage import save
from fans.rows import SENSORS


def federation() -> SumRule:
    """The layer is the federation's; fans get it with the first request."""
    return SumRule("fans", Basis(HiddenLayer(SENSORS, 3, seed=7), SENSORS))


def _told(_: Context, report: RoundReport) -> None:
    print(f"round {report.number}: {len(report.answered)} of {len(report.asked)} answered")
    for name, reason in report.left_out.items():
        print(f"  {name} was left out: {reason}")


def _done(context: Context, outcome: Outcome) -> None:
    task: Any = outcome.federation.task
    member = Charter(task.federation, task.basis, task.ridge).start("server")
    member.rest_on(outcome.federation.merged())
    save(Path(str(context.run_config["output"])), member)
    print(f"mean squared error on the fans' rows: {outcome.delivery.loss:.4g}")


app = server_app(lambda _: federation(), _done, _told)
