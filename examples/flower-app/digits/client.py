"""The client app: learns its rows from the server's model, and answers with what came of it."""

from typing import Any

from flwr.app import Context
from numpy.typing import NDArray

from digits.rows import of_node, pairs
from elmgrove.rounds import AverageClient
from elmgrove.rounds.flower import client_app


def client(node: dict[str, Any], rounds: int, memory: bytes = b"") -> AverageClient:
    """Makes the client of a node, which by round r of R has seen r/R of its rows."""
    X, T = pairs(of_node(node))

    def until(number: int) -> tuple[NDArray[Any], NDArray[Any]]:
        count = len(X) * number // rounds
        return X[:count], T[:count]

    name = str(node.get("name", f"client-{node.get('partition-id')}"))
    return AverageClient(name, until, memory=memory)


def _made(context: Context, memory: bytes) -> AverageClient:
    return client(context.node_config, int(context.run_config["rounds"]), memory)


app = client_app(_made)
