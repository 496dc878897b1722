"""The server app: Fed-ELMS with ±1 as weights, tested after each round; saves the classifier."""

from pathlib import Path

from flwr.app import Context

from digits.rows import pairs, parts
from elmgrove import Basis, HiddenLayer
from elmgrove.algebra import Scaling
from elmgrove.rounds import AverageRule, Exam, Predictor, RoundReport, Target
from elmgrove.rounds.flower import Conclusion, server_app
from elmgrove.storage import save

TARGET = Target("digit", tuple("0123456789"))


def rule() -> AverageRule:
    """Makes the rule: layer, scaling and model go to the clients with the first request."""
    X0, T0 = pairs(parts()[1])
    layer = HiddenLayer(64, 128, "relu", "binary", seed=7)
    basis = Basis(layer, len(TARGET.classes), scaling=Scaling.fitted("standard", X0))
    return AverageRule("digits", basis, basis.scaling(X0), T0)


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


def _done(context: Context, ended: Conclusion) -> None:
    made = Predictor(ended.rule.basis, TARGET, ended.rule.models())
    save(Path(str(context.run_config["output"])), made)


app = server_app(lambda _: rule(), _done, _print, exam)
