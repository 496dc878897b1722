"""Runs the app on this machine: simulated, and deployed with two SuperNodes over TLS.

    python loopback.py [simulation | deployment]...

Both must end with the model that the local engine makes of the same rows, to 1e-9. The deployed one
runs twice: the second time a SuperNode is killed in the middle, and the rounds go on without it.
Which rounds it misses depends on the speed of the machine, so the local engine leaves the same fans
out of the same rounds. Everything that is started here is stopped again, also after an error or
Ctrl-C.
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
from fans.client import client
from fans.rows import made_up
from fans.server import sum_rule

from elmgrove import Evidence
from elmgrove.federation import Member
from elmgrove.rounds import Client, Loss, run_here
from elmgrove.rounds.flower.simulation import FlowerProcesses, free_port, superlink
from elmgrove.storage import load

APP = Path(__file__).parent
ROUNDS = 3
EXACT = 1e-9
#: Seconds that a client has to answer if one is known to be dead.
SHORT = 15.0
#: Seconds that anything else may take.
PATIENCE = 300.0

Node = dict[str, Any]
#: The rounds that a fan was left out of, by its name.
Missed = Mapping[str, set[int]]


def simulation(processes: FlowerProcesses) -> None:
    """Simulates four fans by ``flwr run``."""
    processes.connect(superlink(processes, "--insecure", "--simulation"))
    nodes: list[Node] = [{"partition-id": fan} for fan in range(4)]
    machine = ["--federation-config", f"num-supernodes={len(nodes)}"]
    output = run(processes, [f"clients={len(nodes)}"], *machine)
    check("simulation", output, expected(nodes))


def deployment(processes: FlowerProcesses) -> None:
    """Deploys a SuperLink and two SuperNodes, each fan with a CSV file of its own."""
    certificate = deploy(processes)
    nodes = [start_node(processes, fan, certificate) for fan in range(2)]
    check("deployment", run(processes, ["clients=2"]), expected(nodes))
    killed = nodes[1]["name"]
    output = run(processes, ["clients=2", f"timeout={SHORT}"], kill=killed)
    missed = rounds_missed(said(processes))
    if ROUNDS not in missed[killed]:
        sys.exit(f"{killed} was killed, but not left out.\n{said(processes)}")
    # What it contributed before it was killed stays in the sum.
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


def start_node(processes: FlowerProcesses, fan: int, certificate: Path) -> Node:
    """Starts a SuperNode with its rows in a file."""
    data = processes.folder / f"fan-{fan}.csv"
    np.savetxt(data, made_up(fan), "%.6f", ",")
    node = {"name": f"fan-{fan}", "data": str(data)}
    address = (processes.folder / "address").read_text()
    config = " ".join(f'{name}="{value}"' for name, value in node.items())
    command = ["flower-supernode", "--superlink", address, "--root-certificates", str(certificate)]
    command += ["--port", str(free_port()), "--node-config", config]
    processes.start(node["name"], command)
    return node


def run(
    processes: FlowerProcesses, config: list[str], *options: str, kill: str | None = None
) -> Path:
    """Runs the app to its end, with a SuperNode killed after round 1 or none; gives the file."""
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
    """Gives all that the run printed so far."""
    return (processes.folder / "run.log").read_text(errors="replace")


def rounds_missed(text: str) -> Missed:
    """Reads which fans were left out of which rounds, as the server app prints it."""
    found, number = defaultdict[str, set[int]](set), 0
    for line in text.splitlines():
        if match := re.search(r"\bround (\d+): \d+ of", line):
            number = int(match[1])
        elif match := re.search(r"(\S+) was left out: ", line):
            found[match[1]].add(number)
    return found


def check(what: str, output: Path, wanted: Evidence) -> None:
    """Exits with an error unless the model is the local engine's."""
    found = load(output, Member.from_bytes).merged
    assert found is not None
    if not found.evidence.close_to(wanted, EXACT):
        sys.exit(f"{what}: the model is not the local engine's")
    off = np.abs(found.evidence.U - wanted.U).max() / np.abs(wanted.U).max()
    print(f"{what}: {found.devices} fans, {wanted.count:.0f} rows, off by {off:.0e}")


def expected(nodes: list[Node], missed: Missed | None = None) -> Evidence:
    """Gives what the local engine makes of these nodes, of which some may miss some rounds."""
    rule = sum_rule()
    made = [client(node, ROUNDS) for node in nodes]
    clients = {one.name: Absent(one, (missed or {}).get(one.name, set())) for one in made}
    run_here(rule, clients, rounds=ROUNDS, fraction=1.0, seed=0)
    return rule.merged().evidence


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

    def receive(self, request: bytes, gift: bytes, number: int) -> Loss:
        """Takes in the gift, as the client would."""
        return self._client.receive(request, gift, number)


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
