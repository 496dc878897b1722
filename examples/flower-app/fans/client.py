"""What runs on each fan: it learns its rows and contributes what it learned, never a row."""

from pathlib import Path
from typing import Any

from flwr.app import Context
from numpy.typing import NDArray

from elmgrove.rounds import DeviceClient
from elmgrove.rounds.flower import client_app
from fans.rows import name_of, rows_of


def client(node: dict[str, Any], rounds: int, memory: bytes = b"") -> DeviceClient:
    """A fan; by round r of R it has seen that part of its rows.

    Its node's ``state`` is the file in which it remembers, from run to run, what it has said.
    """
    rows = rows_of(node)

    def until(number: int) -> NDArray[Any]:
        return rows[: len(rows) * number // rounds]

    state = Path(str(node["state"])) if "state" in node else None
    return DeviceClient(name_of(node), until, memory=memory, state=state)


def _made(context: Context, memory: bytes) -> DeviceClient:
    return client(context.node_config, int(context.run_config["rounds"]), memory)


app = client_app(_made)
