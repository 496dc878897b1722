"""Cooling fans: cooperation with patterns, a device that joins late, and one that leaves."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from elmgrove_papers.data import recordings
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RULE, Client, basis, fans
from elmgrove_papers.mlmg.table2 import federation_rows
from elmgrove_papers.mlmg.trial import tried_fleet

LATE, LEAVER = "12cm-silentB", "12cm-noisy"
#: What a device has seen when it joins late: less than its fan's three speeds.
LATE_ROWS = 60


def cooling_fans(run: Run) -> Numbers:
    """Makes the table for the fans, and the story of two devices; the quick run is the full one."""
    known = recordings(run.data)
    clients = fans(known)
    made = basis("fans", clients[0].train.shape[1])
    rules = (replace(RULE, start_rows=256), replace(RULE, start_rows=256, patterns=3))
    return {
        "devices": {client.name: len(client.train) for client in clients},
        "rows left out because the fan is off": sum(one.left_out for one in known),
        "table": federation_rows(clients, made, rules),
        "story": _story(clients, Fleet(made, rules[0]), run),
    }


def _story(clients: Sequence[Client], fleet: Fleet, run: Run) -> list[dict[str, Any]]:
    late = next(client for client in clients if client.name == LATE)
    early = [client for client in clients if client.name != LATE]
    rest = [client for client in clients if client.name != LEAVER]
    steps: list[dict[str, Any]] = []

    def step(text: str, present: Sequence[Client]) -> None:
        trial = tried_fleet(fleet, present)
        names = [client.name for client in present]
        own, peers = (dict(zip(names, part, strict=True)) for part in (trial.own, trial.peers))
        steps.append({"step": text, "auc_own": own, "auc_peers": peers})

    for client in run.track(early, "Fans"):
        fleet.learn(client.name, client.train)
    fleet.sync()
    step(f"all but {LATE} cooperate", early)
    fleet.learn(LATE, late.train[:LATE_ROWS])
    step(f"{LATE} has learned {LATE_ROWS} rows, alone", clients)
    fleet.sync()
    step(f"{LATE} has joined", clients)
    fleet.leave(LEAVER)
    fleet.sync()
    step(f"{LEAVER} has left", rest)
    return steps
