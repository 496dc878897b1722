"""A simulated fleet: devices with keys, and contributions as real ones make them."""

import asyncio
import time
from typing import NamedTuple

from benchmarks.rows import INPUTS, SEED, rows
from elmgrove import Detector, Evidence, HiddenLayer
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.server.secrets import hashed
from elmgrove.server.store.contributions import StoredEntry
from elmgrove.server.store.federations import DeviceRow, FederationRow
from elmgrove.server.store.store import Store, open_store

FEDERATION = "fleet"
TOKEN = "elm-join-of-the-benchmarks"
# As many as the store commits at once.
_TOGETHER = 64
_EVIDENCES = 8
_ROWS = 256


class Size(NamedTuple):
    """Inputs and hidden units of a layer."""

    inputs: int
    units: int

    def __str__(self) -> str:
        return f"n = {self.inputs}, Ñ = {self.units}"


#: The papers' data set of human activities.
HAR = Size(INPUTS, 128)
SMALL = Size(32, 16)


class Fleet:
    """Devices that publish one of a few evidences in turn, each time under their next epoch.

    All evidences are sums over equally many rows, so none is refused as a step back. What a
    server does with a contribution does not depend on the numbers in it.
    """

    def __init__(self, size: Size) -> None:
        self.size = size
        self._evidences = evidences(size, _EVIDENCES)
        self.charter = Charter(FEDERATION, self._evidences[0].basis)
        self._epochs: dict[int, int] = {}

    @property
    def devices(self) -> int:
        """How many are in the store."""
        return len(self._epochs)

    def contribution(self, device: int) -> bytes:
        """Makes what the device publishes next, sealed."""
        epoch = self._epochs.get(device, 0) + 1
        self._epochs[device] = epoch
        evidence = self._evidences[(device + epoch) % _EVIDENCES]
        return Contribution(name_of(device), epoch, (evidence,)).to_bytes()

    def enter(self, url: str, devices: int) -> None:
        """Lets devices into a store until there are so many, each with its first contribution.

        Straight into the data base, while no server runs: that way it takes the least time.
        """
        asyncio.run(self._fill(url, devices))

    async def _fill(self, url: str, devices: int) -> None:
        store = await open_store(url)
        try:
            if not self.devices:
                await self._found(store)
            await self._grow(store, devices)
        finally:
            await store.close()

    async def _found(self, store: Store) -> None:
        basis, ridge = self.charter.basis.fields, self.charter.ridge
        token_hash = hashed(TOKEN)
        made = FederationRow(FEDERATION, basis, ridge, None, token_hash, time.time())
        await store.federations.create(made)

    async def _grow(self, store: Store, devices: int) -> None:
        for first in range(self.devices, devices, _TOGETHER):
            some = range(first, min(first + _TOGETHER, devices))
            await asyncio.gather(*(_enrol(store, device) for device in some))
            await asyncio.gather(*(self._publish(store, device) for device in some))

    async def _publish(self, store: Store, device: int) -> None:
        blob, name, now = self.contribution(device), name_of(device), time.time()
        await store.contributions.put(
            FEDERATION, name, 1, float(_ROWS), blob, now, successor=_anything
        )


def evidences(size: Size, number: int) -> list[Evidence]:
    """Makes so many different evidences, of equally many rows each, the same every time."""
    layer = HiddenLayer(size.inputs, size.units, seed=SEED)
    X = rows(number * _ROWS)[:, : size.inputs]
    made = []
    for start in range(0, len(X), _ROWS):
        detector = Detector(layer)
        detector.learn_many(X[start : start + _ROWS])
        made.append(detector.evidence)
    return made


def name_of(device: int) -> str:
    """Gives the device's name."""
    return f"device-{device:05d}"


def key_of(device: int) -> str:
    """Gives the device's key; the store holds its hash."""
    return f"elm-key-of-{name_of(device)}"


async def _enrol(store: Store, device: int) -> None:
    entry = DeviceRow(name_of(device), hashed(key_of(device)), False, time.time())
    await store.federations.enrol(FEDERATION, entry, again=False)


def _anything(held: StoredEntry | None) -> bool:
    return True
