"""The server app: Fed-ELMS, weights of ±1 on principal components; saves the classifier."""

from pathlib import Path
from typing import Any

from flwr.app import Context

from digits.rows import pairs, parts, projection
from elmgrove import Basis, HiddenLayer
from elmgrove.rounds import AverageRule, Exam, Predictor, RoundReport, RoundRule, Target
from elmgrove.rounds.flower import server_app
from elmgrove.storage import save

TARGET = Target("digit", tuple("0123456789"))


def rule() -> AverageRule:
    """Makes the rule: layer and model go to the clients with the first request."""
    X0, T0 = pairs(parts()[1])
    # The components as they are: in units of their deviations the least would weigh as the most.
    layer = HiddenLayer(X0.shape[1], 128, "relu", "binary", seed=7)
    return AverageRule("digits", Basis(layer, len(TARGET.classes)), X0, T0)


def exam(_: Context) -> Exam:
    """The rows that nobody learns."""
    return Exam(*pairs(parts()[0]), TARGET.classes)


def _print(_: Context, report: RoundReport) -> None:
    assert report.evaluation is not None
    print(
        f"round {report.number}: {len(report.answered)} of {len(report.asked)} answered, "
        f"{100.0 * report.evaluation.value:.1f} % of {report.evaluation.rows} digits are right"
    )
    for name, reason in report.left_out.items():
        print(f"  {name} was left out: {reason}")


def _done(context: Context, ended: RoundRule[Any]) -> None:
    made = Predictor(ended.basis, TARGET, ended.models(), projection=projection())
    save(Path(str(context.run_config["output"])), made)


app = server_app(lambda _: rule(), _done, _print, exam)
