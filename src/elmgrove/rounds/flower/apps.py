"""Flower's server app and client app of a federation in rounds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from elmgrove.rounds.clients import Client
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.flower.strategy import RoundsStrategy, array_of, blob, content, notes_of
from elmgrove.rounds.loop import reason
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.rounds.rules import RoundRule

#: Makes the client of a node, with what it remembers of earlier rounds.
Make = Callable[[Context, bytes], Client]

_MEMORY = "memory"


def client_app(make: Make) -> ClientApp:
    """Makes a ``ClientApp`` of a client, whose memory Flower's context keeps from round to round.

    If a client raises, the server is told why, and the round goes on without it.
    """
    app = ClientApp()

    def answered(
        message: Message, context: Context, answer: Callable[[Client], RecordDict]
    ) -> Message:
        try:
            client = make(context, blob(context.state, _MEMORY))
            made = answer(client)
            context.state[_MEMORY] = array_of(client.memory)
        except Exception as error:  # Flower would tell that it failed, but not why
            made = content({"refused": reason(error)})
        return Message(made, reply_to=message)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return answered(message, context, lambda client: content({"name": client.name}))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return answered(message, context, lambda client: _trained(client, message.content))

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return answered(message, context, lambda client: _received(client, message.content))

    return app


def _trained(client: Client, asked: RecordDict) -> RecordDict:
    reply = client.train(blob(asked, "request"), int(notes_of(asked)["round"]))
    return content({}, reply=reply)


def _received(client: Client, given: RecordDict) -> RecordDict:
    number = int(notes_of(given)["round"])
    loss = client.receive(blob(given, "request"), blob(given, "gift"), number)
    return content({"loss": loss.mean, "rows": loss.rows})


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
