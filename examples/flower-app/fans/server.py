"""The server app: asks the fans, adds up their evidence, and saves the model of all rows."""

from pathlib import Path

from flwr.app import Context

from elmgrove import Basis, HiddenLayer
from elmgrove.federation import Charter
from elmgrove.rounds import RoundReport, SumRule
from elmgrove.rounds.flower import Conclusion, server_app
from elmgrove.storage import save
from fans.rows import SENSORS


def sum_rule() -> SumRule:
    """Makes the rule, with the layer that fans get with the first request."""
    return SumRule("fans", Basis(HiddenLayer(SENSORS, 3, seed=7), SENSORS, score="loss"))


def _told(_: Context, report: RoundReport) -> None:
    print(f"round {report.number}: {len(report.answered)} of {len(report.asked)} answered")
    for name, reason in report.left_out.items():
        print(f"  {name} was left out: {reason}")


def _done(context: Context, outcome: Conclusion) -> None:
    task = outcome.rule.task
    member = Charter(task.federation, task.basis, task.ridge, merged=True).start("server")
    member.set_prior(outcome.rule.merged())
    save(Path(str(context.run_config["output"])), member)
    print(f"mean squared error on the fans' rows: {outcome.delivery.loss:.4g}")


app = server_app(lambda _: sum_rule(), _done, _told)
