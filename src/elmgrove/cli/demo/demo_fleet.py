"""The demo's fleet: agents that learn one digit each, and their federation."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra import Array, Basis, HiddenLayer
from elmgrove.cli.demo.digits import PIXELS, Digits
from elmgrove.cli.demo.processes import DemoProcesses, DemoServer
from elmgrove.exchange import client, request
from elmgrove.federation import MERGED, Charter, Member
from elmgrove.storage import load

NAME = "digits"


class DemoFleet:
    """The demo's devices: device k follows a file of digit k, and syncs twice a second."""

    def __init__(
        self,
        folder: Path,
        processes: DemoProcesses,
        data: Digits,
        devices: int,
        units: int,
        seed: int,
    ) -> None:
        self._folder = folder
        self._processes = processes
        self._data = data
        self.names = [f"device-{digit}" for digit in range(devices)]
        # By loss, as in the papers: digits of several sorts are not one cloud.
        layer = HiddenLayer(PIXELS, units, seed=seed)
        self.charter = Charter(
            NAME, Basis(layer, PIXELS, features=_names(), score="loss"), alarm=MERGED
        )

    def join(self, server: DemoServer) -> None:
        """Makes the federation, and starts one agent for each digit."""
        with client(server.url, server.admin_token) as opened:
            token = request(opened, "POST", "", json=self.charter.fields).json()["token"]
        for digit, name in enumerate(self.names):
            self._data.write(digit, self._folder / f"{name}.csv")
            self._processes.start(
                name,
                *("device", "run", "--name", name, "--state", f"{name}.elm"),
                *("--source", f"{name}.csv", "--follow", "--verdicts", f"{name}.jsonl"),
                *("--exchange", f"{server.url}/{NAME}"),
                *("--sync-seconds", "0.5", "--save-seconds", "0.5"),
                ELMGROVE_DEVICE_TOKEN=token,
            )

    def in_step(self, others: int, names: list[str] | None = None) -> bool:
        """Says whether each device has sent all that it learned and uses so many others."""
        return all(self._settled(name, others) for name in names or self.names)

    def member(self, name: str) -> Member:
        """Loads a device's member from its state file."""
        return load(self._folder / f"{name}.elm", Member.from_bytes)

    def learned_rows(self, name: str) -> Array:
        """Gives the rows that a device found normal and learned, by its verdicts."""
        rows = self._data.rows_of(self.names.index(name)).round(4)
        return rows[[verdict["learned"] for verdict in self._verdicts(name)]]

    def leave(self, name: str, server: DemoServer) -> None:
        """Stops an agent and takes its part out of the federation."""
        self._processes.stop(name)
        self._processes.run("device", "leave", f"{server.url}/{NAME}", "--state", f"{name}.elm")

    def stop(self) -> None:
        """Ends the agents that still run."""
        for name in self.names:
            if self._processes.runs(name):
                self._processes.stop(name)

    def _verdicts(self, name: str) -> list[dict[str, Any]]:
        path = self._folder / f"{name}.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        # The last line may still be being written.
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _settled(self, name: str, others: int) -> bool:
        if not (self._folder / f"{name}.elm").exists():
            return False
        member = self.member(name)
        published = 0 if member.published is None else member.published.learned
        expected = len(self._data.rows_of(self.names.index(name)))
        read = len(self._verdicts(name)) == expected
        known = 0 if member.merged is None else member.merged.devices
        return read and published == member.detector.learned and known == others


def difference(member: Member, rows: Array) -> float:
    """Compares a model with one that learned all these rows in one place (relative, β)."""
    central = Charter(NAME, member.detector.basis, member.detector.model.ridge, alarm=MERGED).start(
        "central"
    )
    central.detector.learn_many(rows)
    beta = _beta(central)
    return float(np.abs(_beta(member) - beta).max() / np.abs(beta).max())


def _beta(member: Member) -> Array:
    """The output weights by all that the device learned and received."""
    own, received = member.detector.evidence, member.detector.received
    total = own if received is None else own + received
    return total.solve(member.detector.model.ridge)


def _names() -> tuple[str, ...]:
    return tuple(f"pixel {index}" for index in range(PIXELS))
