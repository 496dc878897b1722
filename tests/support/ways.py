"""Every exchange there is, as the same fixture: ways of devices to one place."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from elmgrove.exchange.base import Exchange
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.http import HttpExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.exchange.mqtt import MqttExchange
from elmgrove.federation.charter import Charter
from support.mosquitto import running_broker
from support.serving import empty_database, serving

#: Opens the way of one device to the exchange; all ways of a test lead to the same place.
Way = Callable[[str], Exchange]
KINDS = ["memory", "folder", "http on sqlite", "http on postgres", "mqtt"]


@contextmanager
def ways_to(request: pytest.FixtureRequest, folder: Path, charter: Charter) -> Iterator[Way]:
    """Founds a federation at the exchange that ``request.param`` names."""
    ways = ExitStack()
    if request.param == "memory":
        shared = MemoryExchange(charter)

        def way(device: str) -> Exchange:
            return shared
    elif request.param.startswith("http"):
        database = empty_database(request, folder, request.param.rpartition(" ")[2])
        server = ways.enter_context(serving(database))
        token = server.found(charter).token
        known: dict[str, Exchange] = {}

        def way(device: str) -> Exchange:
            if device not in known:
                base = f"{server.base}/{charter.name}"
                known[device] = HttpExchange(base, device, token=token)
                ways.callback(known[device].close)
            return known[device]
    elif request.param == "mqtt":
        request.getfixturevalue("mosquitto")
        place = ways.enter_context(running_broker(folder))
        url, links = place.url("elmgrove/fans"), dict[str, Exchange]()
        MqttExchange.create(url, charter)

        def way(device: str) -> Exchange:
            if device not in links:
                links[device] = MqttExchange(url, device)
                ways.callback(links[device].close)
            return links[device]
    else:
        FolderExchange.create(folder, charter)

        def way(device: str) -> Exchange:
            return FolderExchange(folder)

    with ways:
        yield way
