"""OS-ELM's ROC-AUC for all pairs of a trial: before, after, and after with one or more patterns."""

from elmgrove.detector import PatternRule
from elmgrove_papers.figure import SEED, Run
from elmgrove_papers.ito2021.settings import EQUAL, THREE
from elmgrove_papers.ito2021.trial import (
    AFTER,
    BEFORE,
    PATTERNS,
    THREE_PATTERNS,
    Maps,
    PairsTrial,
)
from elmgrove_papers.pairs import PatternDevices


def os_elm(trial: PairsTrial, run: Run) -> Maps:
    """Maps the devices on their own, after the update, and after it with a model a pattern.

    After the update both devices have the same model, so one half of the map mirrors the other.
    """
    maps = {model: trial.empty() for model in (BEFORE, AFTER, PATTERNS)}
    plain, patterned = _devices(trial, None), _devices(trial, EQUAL)
    for pair in run.track(trial.pairs, trial.text("OS-ELM", run)):
        tested, back = pair.tested(trial.data), pair[::-1]
        with plain.met(pair, run.meeting) as two:
            for cell, score in zip((pair, back), two.alone(), strict=True):
                maps[BEFORE][cell] = tested.auc(score)
            maps[AFTER][pair] = maps[AFTER][back] = tested.auc(two.merged())
        with patterned.met(pair, run.meeting) as two:
            maps[PATTERNS][pair] = maps[PATTERNS][back] = tested.auc(two.merged())
    return {model: found.tolist() for model, found in maps.items()}


def three_patterns(trial: PairsTrial, run: Run) -> Maps:
    """Maps the devices after the update, where each has three models for what it knows."""
    found, devices = trial.empty(), _devices(trial, THREE)
    for pair in run.track(trial.pairs, trial.text(THREE_PATTERNS, run)):
        with devices.met(pair, run.meeting) as two:
            found[pair] = found[pair[::-1]] = pair.tested(trial.data).auc(two.merged())
    return {THREE_PATTERNS: found.tolist()}


def _devices(trial: PairsTrial, rule: PatternRule | None) -> PatternDevices:
    basis = trial.setting.basis(trial.data.width, SEED + trial.number)
    return PatternDevices(trial.data, trial.most, basis, rule)
