"""Nodes: which of Flower's nodes is which client."""

import logging
import time

from flwr.app import Message
from flwr.serverapp import Grid

from elmgrove.errors import BadInput
from elmgrove.federation import require_origin
from elmgrove.rounds.flower.records import content, notes_of

#: Seconds between two looks at who is there.
_PAUSE = 0.5
#: Seconds for those who were asked before and did not say a name that could be used.
_AGAIN = 10.0
log = logging.getLogger("elmgrove.rounds")


class Nodes:
    """Clients by the names that they gave when they were first seen; numbers of nodes are random.

    Before anything else it waits for so many ``clients`` and for their names, at most ``start``
    seconds each. A node whose name is taken, or that does not tell any, takes no part, which is
    logged; before the next round it is asked again, but not waited for as long as one that just
    came (``timeout``). One that is gone keeps its name: it may be back.
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
        """Everybody who was ever met, sorted."""
        return sorted(self._nodes)

    def node(self, name: str) -> int | None:
        """The node of a client, if it is there now."""
        node = self._nodes[name]
        return node if node in self._here else None

    def name(self, node: int) -> str | None:
        """The client of a node."""
        return self._names.get(node)

    def meet(self, grid: Grid) -> None:
        """Looks who is there, and asks those who are new for their names."""
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
                # Who goes later is left out rather than waited for.
                self._clients = 0
                return here
            if time.monotonic() > until:
                raise BadInput(f"{len(here)} of {self._clients} clients came within the time")
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
        raise BadInput(str(notes.get("refused", "it does not say its name")))
    name = str(notes["name"])
    require_origin(name)
    return name
