"""Nodes: which of Flower's nodes is which client."""

import logging
import time

from flwr.app import Message
from flwr.serverapp import Grid

from elmgrove.errors import BadInput
from elmgrove.federation import require_origin
from elmgrove.rounds.flower.records import content, notes_of

#: Seconds between two looks at which nodes are connected.
_PAUSE = 0.5
#: Seconds for nodes that were asked before and gave no name that could be used.
_AGAIN = 10.0
log = logging.getLogger("elmgrove.rounds")


class Nodes:
    """The clients by the names that they gave themselves, since Flower's numbers are random.

    The first ``meet`` waits for so many ``clients``, and then for their names, at most ``start``
    seconds each. A node without a name, or with one that is taken, takes no part, which is
    logged; it is asked again before the next round, but not waited for as long as a node that
    just came (``timeout``). A node that is gone keeps its name, since it may come back.
    """

    def __init__(self, clients: int, start: float, timeout: float) -> None:
        self._clients = clients
        self._start = start
        self._timeout = timeout
        self._asked: set[int] = set()
        self._nodes: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._here: set[int] = set()

    @property
    def names(self) -> list[str]:
        """The names of all clients that were ever met, sorted."""
        return sorted(self._nodes)

    def node(self, name: str) -> int | None:
        """Gives the node of a client, if it is connected now."""
        node = self._nodes[name]
        return node if node in self._here else None

    def name(self, node: int) -> str | None:
        """Gives the name of the client on a node."""
        return self._names.get(node)

    def meet(self, grid: Grid) -> None:
        """Looks which nodes are connected, and asks the new ones for their names."""
        self._here = self._present(grid)
        new = sorted(self._here - self._names.keys())
        asked = [Message(content({}), node, "query") for node in new]
        patience = self._patience(new)
        for message in grid.send_and_receive(asked, timeout=patience) if asked else ():
            self._greet(message)

    def _patience(self, new: list[int]) -> float:
        first, known = not self._asked, self._asked.issuperset(new)
        self._asked |= set(new)
        if first:
            return self._start
        return min(self._timeout, _AGAIN) if known else self._timeout

    def _present(self, grid: Grid) -> set[int]:
        until = time.monotonic() + self._start
        while True:
            here = set(grid.get_node_ids())
            if len(here) >= self._clients:
                # A client that goes later is left out and not waited for.
                self._clients = 0
                return here
            if time.monotonic() > until:
                raise BadInput(
                    f"{len(here)} of {self._clients} clients came within {self._start:g} s"
                )
            time.sleep(_PAUSE)

    def _greet(self, message: Message) -> None:
        node = message.metadata.src_node_id
        try:
            name = _name_in(message)
            if self._nodes.get(name) in self._here:
                raise BadInput(f"the name {name!r} is taken")
        except BadInput as error:
            log.warning("node %d takes no part: %s", node, error)
            return
        self._names.pop(self._nodes.get(name, node), None)
        self._nodes[name], self._names[node] = node, name


def _name_in(message: Message) -> str:
    if message.has_error():
        raise BadInput(message.error.reason)
    notes = notes_of(message.content)
    if "name" not in notes:
        raise BadInput(str(notes.get("refused", "it gave no name")))
    name = str(notes["name"])
    require_origin(name)
    return name
