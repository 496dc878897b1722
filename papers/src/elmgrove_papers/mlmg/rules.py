"""What learns a row: the pattern whose centroid is nearest, or the one with the lowest loss."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector import Detector, PatternRule
from elmgrove.detector.patterns import OwnPatterns
from elmgrove_papers.data import har, mnist, recordings
from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.mlmg.clients import RULE, Client, activities, basis, fans, few_digits
from elmgrove_papers.mlmg.trial import tried_fleet


class PatternsByLoss(OwnPatterns):
    """Patterns in which the model with the lowest loss learns a row, wherever its rows lie."""

    @property
    def rows_until_change(self) -> int:
        """One row: each changes the losses by which the next one is assigned."""
        return self.rows_undecided or 1

    def nearest(self, x: Array) -> int:
        """Finds the place of the pattern that explains a row best."""
        return int(self.nearest_to_each(x[np.newaxis])[0])

    def nearest_to_each(self, X: Array) -> Array:
        """Finds the place of the pattern that explains each row best, beside what is typical."""
        typical = np.array([pattern.typical for pattern in self.used])
        known = np.isfinite(typical) & (typical > 0.0)
        typical[~known] = typical[known].max(initial=0.0) or 1.0
        losses = np.stack([pattern.model.scores(X) for pattern in self.used])
        return np.asarray((losses / typical[:, np.newaxis]).argmin(axis=0))


def by_loss(detector: Detector) -> None:
    """Lets a detector that has learned nothing assign rows by loss."""
    model: Any = detector.model
    model.patterns = PatternsByLoss(detector.basis, model.rule, ridge=model.ridge)
    model.set_prior(())


def assignment(run: Run) -> Numbers:
    """Compares what learns a row: the nearest centroid's pattern, or the lowest loss's.

    Quick: with as many patterns as are found, not with five as well.
    """
    counts = ("auto",) if run.quick else ("auto", 5)
    settings = [(assign, patterns) for patterns in counts for assign in ("centroid", "loss")]
    found: Numbers = {}
    for name, clients in _data(run).items():
        found[name] = [
            {"assign": assign, "patterns": patterns}
            | _before_and_after(name, clients, assign, replace(RULE, patterns=patterns))
            for assign, patterns in run.track(settings, f"Assignment on {name}")
        ]
    return found


def _data(run: Run) -> dict[str, list[Client]]:
    # Few rows: assignment by loss takes them one by one.
    pixels = mnist(run.data)
    return {
        "mnist case 1": few_digits(pixels, 1),
        "mnist case 2": few_digits(pixels, 2),
        "har": activities(har(run.data)),
        "fans": fans(recordings(run.data)),
    }


def _before_and_after(
    name: str, clients: Sequence[Client], assign: str, rule: PatternRule
) -> dict[str, Any]:
    """ROC-AUC alone and cooperating, and by how much the client that lost most lost."""
    fleet = Fleet(basis(name.split()[0], clients[0].train.shape[1]), rule)
    for client in clients:
        fleet.learn(client.name, client.train[:0])
        if assign == "loss":
            by_loss(fleet.detector(client.name))
        fleet.learn(client.name, client.train)
    before = tried_fleet(fleet, clients)
    counts = [len(fleet.detector(client.name).parts) for client in clients]
    fleet.sync()
    alone, after = before.numbers(), tried_fleet(fleet, clients).numbers(before)
    return {
        "patterns found": counts,
        "auc_own_alone": alone["auc_own"],
        "auc_peers_alone": alone["auc_peers"],
        "auc_own": after["auc_own"],
        "auc_peers": after["auc_peers"],
        "worst_change_own": after["worst_change_own"],
    }
