"""Runs the app on this machine: simulated, and deployed with two SuperNodes over TLS.

    python loopback.py [simulation | deployment]...

Both must end with the model that the local engine makes of the same rows, to 1e-9. The deployed one
runs twice: the second time a SuperNode is killed in the middle, and the rounds go on without it.
Which rounds it misses depends on the speed of the machine, so the local engine leaves the same
clients out of the same rounds. Everything that is started here is stopped again, also after an
error or Ctrl-C.
"""

import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from digits.client import client
from digits.rows import of_client
from digits.server import rule
from processes import FlowerProcesses, free_port, superlink

from elmgrove.rounds import Client, GlobalModel, InProcess, Predictor, run_rounds
from elmgrove.storage import load

APP = Path(__file__).parent
ROUNDS = 3
EXACT = 1e-9
#: Seconds that a client has to answer if one is known to be dead.
SHORT = 15.0
#: Seconds that anything else may take.
PATIENCE = 300.0

Node = dict[str, Any]
#: The rounds that a client was left out of, by its name.
Missed = Mapping[str, set[int]]


def simulation(processes: FlowerProcesses) -> None:
    """Simulates ten clients by ``flwr run``."""
    processes.connect(superlink(processes, "--insecure", "--simulation"))
    nodes: list[Node] = [{"partition-id": number} for number in range(10)]
    machine = ["--federation-config", f"num-supernodes={len(nodes)}"]
    output = run(processes, [f"clients={len(nodes)}"], *machine)
    check("simulation", output, expected(nodes))


def deployment(processes: FlowerProcesses) -> None:
    """Deploys a SuperLink and two SuperNodes, each client with a CSV file of its own."""
    certificate = deploy(processes)
    nodes = [start_node(processes, number, certificate) for number in range(2)]
    check("deployment", run(processes, ["clients=2"]), expected(nodes))
    killed = nodes[1]["name"]
    output = run(processes, ["clients=2", f"timeout={SHORT}"], kill=killed)
    missed = rounds_missed(said(processes))
    if ROUNDS not in missed[killed]:
        sys.exit(f"{killed} was killed, but not left out.\n{said(processes)}")
    # What it answered before it was killed stays in the average.
    check("a SuperNode killed after round 1", output, expected(nodes, missed))


def deploy(processes: FlowerProcesses) -> Path:
    """Starts a SuperLink with a certificate made for it."""
    key, certificate = make_certificate(processes.folder)
    own, ca = str(certificate), str(certificate)
    options = ["--ssl-certfile", own, "--ssl-keyfile", str(key), "--ssl-ca-certfile", ca]
    address = superlink(processes, *options, scheme="https")
    processes.connect(address, certificate)
    (processes.folder / "address").write_text(address)
    return certificate


def start_node(processes: FlowerProcesses, number: int, certificate: Path) -> Node:
    """Starts a SuperNode with its rows in a file."""
    data = processes.folder / f"client-{number}.csv"
    np.savetxt(data, of_client(number), "%.6f", ",")
    node = {"name": f"client-{number}", "data": str(data)}
    address = (processes.folder / "address").read_text()
    config = " ".join(f'{name}="{value}"' for name, value in node.items())
    command = ["flower-supernode", "--superlink", address, "--root-certificates", str(certificate)]
    command += ["--port", str(free_port()), "--node-config", config]
    processes.start(node["name"], command)
    return node


def run(
    processes: FlowerProcesses, config: list[str], *options: str, kill: str | None = None
) -> Path:
    """Runs the app to its end, with a SuperNode killed after round 1 or none; returns the file."""
    output = processes.folder / "federation.elm"
    output.unlink(missing_ok=True)
    chosen = " ".join([f'output="{output}"', f"rounds={ROUNDS}", *config])
    command = ["flwr", "run", str(APP), *options, "--run-config", chosen, "--stream"]
    process = processes.start("run", command)
    if kill is not None:
        processes.wait("round 1 ended", lambda: "round 1:" in said(processes), PATIENCE)
        processes.kill(kill)
    processes.wait("the run ended", lambda: process.poll() is not None, PATIENCE)
    if not output.exists():
        sys.exit(f"The run left no model.\n{processes.log('run')}")
    return output


def said(processes: FlowerProcesses) -> str:
    """All that the run printed so far."""
    return (processes.folder / "run.log").read_text(errors="replace")


def rounds_missed(text: str) -> Missed:
    """Reads which clients were left out of which rounds, as the server app prints it."""
    found, number = defaultdict[str, set[int]](set), 0
    for line in text.splitlines():
        if match := re.search(r"\bround (\d+): \d+ of", line):
            number = int(match[1])
        elif match := re.search(r"(\S+) was left out: ", line):
            found[match[1]].add(number)
    return found


def check(what: str, output: Path, wanted: GlobalModel) -> None:
    """Exits with an error unless the model is the local engine's."""
    [found] = load(output, Predictor.from_bytes).models
    off = np.abs(found.beta - wanted.beta).max() / np.abs(wanted.beta).max()
    if off > EXACT or found.rows != wanted.rows:
        sys.exit(f"{what}: the model is not the local engine's")
    print(f"{what}: {wanted.rows} rows, off by {off:.0e}")


def expected(nodes: list[Node], missed: Missed | None = None) -> GlobalModel:
    """What the local engine makes of these nodes, of which some may miss some rounds."""
    averages = rule()
    made = [client(node, ROUNDS) for node in nodes]
    clients = {one.name: Absent(one, (missed or {}).get(one.name, set())) for one in made}
    run_rounds(averages, InProcess(clients), rounds=ROUNDS)
    return averages.models()[0]


class Absent(Client):
    """A client that does not answer in some rounds."""

    def __init__(self, client: Client, rounds: set[int]) -> None:
        super().__init__(client.name)
        self._client = client
        self._absent = rounds

    def train(self, request: bytes, number: int) -> bytes:
        """Answers as the client would, but for those rounds."""
        if number in self._absent:
            raise ConnectionError("absent")
        return self._client.train(request, number)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Makes a key, and a certificate for 127.0.0.1 that is its own authority."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "1", "-subj", "/CN=loopback"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return key, certificate


WAYS = {"simulation": simulation, "deployment": deployment}


def main() -> None:
    """Runs the ways that are named, or all."""
    for name in sys.argv[1:] or WAYS:
        started = time.monotonic()
        with TemporaryDirectory(prefix="elmgrove-") as folder:
            with FlowerProcesses(Path(folder)) as processes:
                WAYS[name](processes)
            if processes.left():
                sys.exit(f"{name}: still running: {processes.left()}")
        print(f"{name}: took {time.monotonic() - started:.0f} s; nothing is left running")


if __name__ == "__main__":
    main()
