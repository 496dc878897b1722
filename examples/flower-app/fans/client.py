"""The client app, on each fan: learns its rows and contributes evidence, never a row."""

from pathlib import Path
from typing import Any

from flwr.app import Context
from numpy.typing import NDArray

from elmgrove.rounds import DeviceClient
from elmgrove.rounds.flower import client_app
from fans.rows import name_of, rows_of


def client(node: dict[str, Any], rounds: int, memory: bytes = b"") -> DeviceClient:
    """Makes the client of a fan, which by round r of R has seen r/R of its rows.

    The node's ``state`` is the file in which it remembers, from run to run, what it contributed.
    """
    rows = rows_of(node)

    def until(number: int) -> NDArray[Any]:
        return rows[: len(rows) * number // rounds]

    state = Path(str(node["state"])) if "state" in node else None
    return DeviceClient(name_of(node), until, memory=memory, state=state)


def _made(context: Context, memory: bytes) -> DeviceClient:
    return client(context.node_config, int(context.run_config["rounds"]), memory)


app = client_app(_made)
