"""The client app: a worker that answers Flower's messages."""

from collections.abc import Callable

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from elmgrove.rounds.clients import Worker
from elmgrove.rounds.flower.records import array_of, blob, content, notes_of
from elmgrove.rounds.loop import reason

#: Makes the worker of a node, with what it remembers of earlier rounds.
Make = Callable[[Context, bytes], Worker]

_MEMORY = "memory"


def client_app(make: Make) -> ClientApp:
    """A ``ClientApp`` around a worker; its memory is kept in Flower's context from round to round.

    What a worker raises is told to the server in words, and the round goes on without it.
    """
    app = ClientApp()

    def answered(
        message: Message, context: Context, answer: Callable[[Worker], RecordDict]
    ) -> Message:
        try:
            worker = make(context, blob(context.state, _MEMORY))
            made = answer(worker)
            context.state[_MEMORY] = array_of(worker.memory)
        except Exception as error:
            # Flower would tell the server that something failed, but not what.
            made = content({"refused": reason(error)})
        return Message(made, reply_to=message)

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return answered(message, context, lambda worker: content({"name": worker.name}))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return answered(message, context, lambda worker: _trained(worker, message.content))

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return answered(message, context, lambda worker: _received(worker, message.content))

    return app


def _trained(worker: Worker, asked: RecordDict) -> RecordDict:
    reply = worker.train(blob(asked, "request"), int(notes_of(asked)["round"]))
    return content({}, reply=reply)


def _received(worker: Worker, given: RecordDict) -> RecordDict:
    number = int(notes_of(given)["round"])
    loss = worker.receive(blob(given, "request"), blob(given, "gift"), number)
    return content({"loss": loss.mean, "rows": loss.rows})
