"""Cooling fans: patterns and policies, a device that joins late, and one that leaves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmgrove_papers.answers import ANOMALOUS, UNKNOWN
from elmgrove_papers.data import recordings
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RULE, Client, basis, distance_basis, fans
from elmgrove_papers.mlmg.table2 import federation_rows, printed_rows
from elmgrove_papers.mlmg.trial import FleetTrial, tried_fleet, tried_unknown

LATE, LEAVER = "12cm-silentB", "12cm-noisy"
#: What a device has seen when it joins late: less than its fan's three speeds.
LATE_ROWS = 60
#: How the answers of all devices that are there are tested.
Tests = Mapping[str, Callable[[Fleet, Sequence[Client]], FleetTrial]]
Story = list[dict[str, Any]]


def cooling_fans(run: Run) -> Numbers:
    """Makes the table for the fans, and the story of two devices; the quick run is the full one."""
    known = recordings(run.data)
    clients = fans(known)
    made = basis("fans", clients[0].train.shape[1])
    rules = (replace(RULE, start_rows=256), replace(RULE, start_rows=256, patterns=3))
    # A federation is made with the rows of those that are there from the beginning.
    early = np.vstack([client.train for client in clients if client.name != LATE])
    both: Tests = {ANOMALOUS: tried_fleet, UNKNOWN: tried_unknown}
    stories: dict[str, Story] = _stories(clients, Fleet(made, rules[0]), {"": tried_fleet}, run)
    changes = dict[str, dict[str, float]]()
    for one in (made, distance_basis(early)):
        told = _stories(clients, Fleet(one, merged=False), both, run)
        changes[f"by {one.score}"] = _changes(told[ANOMALOUS])
        stories |= {f", {name}, by {one.score}": story for name, story in told.items()}
    return {
        "devices": {client.name: len(client.train) for client in clients},
        "rows left out because the fan is off": sum(one.left_out for one in known),
        "table": federation_rows(clients, made, rules) | printed_rows(clients, made, rules),
        **{f"story{name}": story for name, story in stories.items()},
        f"change of own AUC, {ANOMALOUS}": changes,
    }


def _stories(clients: Sequence[Client], fleet: Fleet, tests: Tests, run: Run) -> dict[str, Story]:
    """Tests all that are there at each step, in each way."""
    told = {name: Story() for name in tests}
    for text, present in _steps(clients, fleet, run):
        names = [client.name for client in present]
        for name, tested in tests.items():
            trial = tested(fleet, present)
            own, peers = (dict(zip(names, part, strict=True)) for part in (trial.own, trial.peers))
            told[name].append({"step": text, "auc_own": own, "auc_peers": peers})
    return told


def _steps(
    clients: Sequence[Client], fleet: Fleet, run: Run
) -> Iterator[tuple[str, Sequence[Client]]]:
    """Lets the devices of a fleet live through the story; gives each step and who is there."""
    late = next(client for client in clients if client.name == LATE)
    early = [client for client in clients if client.name != LATE]
    for client in run.track(early, "Fans"):
        fleet.learn(client.name, client.train)
    yield f"all but {LATE}, each alone", early
    fleet.sync()
    yield f"all but {LATE} cooperate", early
    fleet.learn(LATE, late.train[:LATE_ROWS])
    yield f"{LATE} has learned {LATE_ROWS} rows, alone", clients
    fleet.sync()
    yield f"{LATE} has joined", clients
    fleet.leave(LEAVER)
    fleet.sync()
    yield f"{LEAVER} has left", [client for client in clients if client.name != LEAVER]


def _changes(story: Story) -> dict[str, float]:
    """By how much each device's own ROC-AUC differs from its first, alone, where it does most."""
    changes = dict[str, float]()
    for name in story[-2]["auc_own"]:
        values = [step["auc_own"][name] for step in story if name in step["auc_own"]]
        changes[name] = max((value - values[0] for value in values), key=abs)
    return changes
