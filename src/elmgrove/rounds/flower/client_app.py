"""Client apps: a client that answers Flower's messages."""

from collections.abc import Callable

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from elmgrove.rounds.clients import Client
from elmgrove.rounds.flower.records import array_of, blob, content, notes_of
from elmgrove.rounds.loop import reason

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
