"""Server apps: a rule whose rounds Flower runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.flower.strategy import RoundsStrategy
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule


@dataclass(frozen=True)
class Conclusion:
    """What a federation ended with: its rule, a report of each round, and what clients got."""

    rule: RoundRule[Any]
    reports: list[RoundReport]
    delivery: Delivery


#: The settings of ``RoundsStrategy`` that an app's configuration may have, with their defaults.
SETTINGS = {
    "clients": 2,
    "rounds": 1,
    "fraction": 1.0,
    "seed": 0,
    "start": 600.0,
    "timeout": 3600.0,
}


def server_app(
    make: Callable[[Context], RoundRule[Any]],
    done: Callable[[Context, Conclusion], None],
    on_round: Callable[[Context, RoundReport], None] | None = None,
    exam: Callable[[Context], Exam | None] | None = None,
) -> ServerApp:
    """Makes a ``ServerApp`` that makes a rule, runs its rounds and hands the outcome to ``done``.

    ``on_round`` is told of each round; ``exam`` gives the rows on which the server tests the global
    model after it. ``clients`` (to wait for), ``rounds``, ``fraction``,
    ``seed``, ``start`` (seconds that clients have to come) and ``timeout`` (seconds that each has
    to answer) are taken from the app's configuration (``[tool.flwr.app.config]``).
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        rule, reports = make(context), list[RoundReport]()

        def tell(report: RoundReport) -> None:
            reports.append(report)
            if on_round is not None:
                on_round(context, report)

        chosen: dict[str, Any] = {
            name: type(default)(context.run_config.get(name, default))
            for name, default in SETTINGS.items()
        }
        test = None if exam is None else exam(context)
        delivery = RoundsStrategy(rule, exam=test, on_round=tell, **chosen).run(grid)
        done(context, Conclusion(rule, reports, delivery))

    return app
