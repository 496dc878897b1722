"""A server for the papers' devices to meet on, for as long as a figure takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from elmgrove.cli import DemoProcesses, Server
from elmgrove.errors import require_extra
from elmgrove.exchange import Exchange, HttpExchange, client, request
from elmgrove.federation import Charter
from elmgrove_papers.fleet import Meeting, in_memory


@contextmanager
def meeting(server: bool) -> Iterator[Meeting]:
    """Where devices meet: in memory, or on an ``elmgrove serve`` that ends with the figure."""
    if not server:
        yield in_memory
        return
    require_extra("uvicorn", "server")
    with (
        TemporaryDirectory(prefix="elmgrove-paper-") as scratch,
        DemoProcesses(Path(scratch)) as processes,
    ):
        yield _on(Server(processes))


def _on(server: Server) -> Meeting:
    """Each fleet has a federation of its own there, and each device its own key and connection."""
    numbers = count(1)

    def founded(charter: Charter) -> Callable[[str], Exchange]:
        named = replace(charter, name=f"{charter.name}-{next(numbers)}")
        with client(server.url, server.admin_token) as opened:
            token = request(opened, "POST", "", json=named.fields).json()["token"]
        return lambda device: HttpExchange(f"{server.url}/{named.name}", device, token=token)

    return founded
