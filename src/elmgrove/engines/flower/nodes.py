"""Nodes: which of Flower's nodes is which client."""

import time

from flwr.app import Message
from flwr.serverapp import Grid

from elmgrove.cooperation.origin import require_origin
from elmgrove.engines.flower.records import content, notes_of
from elmgrove.errors import BadInput

#: Seconds between two looks at who is there.
_PAUSE = 0.5


class Nodes:
    """Clients by the names that they gave when they were first seen; numbers of nodes are random.

    Before anything else it waits for so many ``clients``, at most ``timeout`` seconds. A node whose
    name is taken, or that has none, takes no part. One that is gone keeps its name: it may be back.
    """

    def __init__(self, clients: int, timeout: float) -> None:
        self._clients = clients
        self._timeout = timeout
        self._nodes: dict[str, int] = {}
        self._met: set[int] = set()
        self._here: set[int] = set()
        #: Nodes that take no part, and why.
        self.refused: dict[int, str] = {}

    @property
    def names(self) -> list[str]:
        """Everybody who was ever met, sorted."""
        return sorted(self._nodes)

    def node(self, name: str) -> int | None:
        """The node of a client, if it is there now."""
        node = self._nodes[name]
        return node if node in self._here else None

    def name(self, node: int) -> str | None:
        """The client of a node."""
        return next((name for name, known in self._nodes.items() if known == node), None)

    def meet(self, grid: Grid) -> None:
        """Looks who is there, and asks those who are new for their names."""
        self._here = self._present(grid)
        new = sorted(self._here - self._met)
        asked = [Message(content({}), node, "query") for node in new]
        for message in grid.send_and_receive(asked, timeout=self._timeout) if asked else ():
            self._greet(message)

    def _present(self, grid: Grid) -> set[int]:
        until = time.monotonic() + self._timeout
        while True:
            here = set(grid.get_node_ids())
            if self._met or len(here) >= self._clients:
                return here
            if time.monotonic() > until:
                raise BadInput(f"{len(here)} of {self._clients} clients came within the time")
            time.sleep(_PAUSE)

    def _greet(self, message: Message) -> None:
        node = message.metadata.src_node_id
        self._met.add(node)
        try:
            if message.has_error():
                raise BadInput(message.error.reason)
            name = str(notes_of(message.content)["name"])
            require_origin(name)
            if name in self._nodes and self._nodes[name] in self._here:
                raise BadInput(f"the name {name!r} is taken")
        except (BadInput, KeyError) as error:
            self.refused[node] = str(error)
        else:
            self._nodes[name] = node
