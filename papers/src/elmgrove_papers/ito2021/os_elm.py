"""OS-ELM's ROC-AUC for all pairs of a trial: before, after, and after with one or more patterns."""

from contextlib import closing

from elmgrove.detector import PatternRule
from elmgrove.federation import Charter, Member
from elmgrove_papers.figure import SEED, Run
from elmgrove_papers.fleet import Fleet
from elmgrove_papers.ito2021.pair import Pair, Tested
from elmgrove_papers.ito2021.settings import EQUAL, THREE
from elmgrove_papers.ito2021.trial import AFTER, BEFORE, PATTERNS, THREE_PATTERNS, Maps, Trial


def os_elm(trial: Trial, run: Run) -> Maps:
    """The devices on their own; after the cooperative update; and so with a model a pattern.

    After the update both devices have the same model, so one half of the map mirrors the other.
    """
    maps = {model: trial.empty() for model in (BEFORE, AFTER, PATTERNS)}
    plain, patterned = _Devices(trial, None), _Devices(trial, EQUAL)
    for pair in run.track(trial.pairs, trial.text("OS-ELM", run)):
        tested, back = pair.tested(trial.data), pair[::-1]
        with closing(plain.met(pair, run)) as fleet:
            for cell, name in zip((pair, back), _names(pair), strict=True):
                maps[BEFORE][cell] = _auc(fleet, tested, name)
            maps[AFTER][pair] = maps[AFTER][back] = _after(fleet, tested, pair)
        with closing(patterned.met(pair, run)) as fleet:
            maps[PATTERNS][pair] = maps[PATTERNS][back] = _after(fleet, tested, pair)
    return {model: found.tolist() for model, found in maps.items()}


def three_patterns(trial: Trial, run: Run) -> Maps:
    """After the update, where a device has three models for what it knows."""
    found, devices = trial.empty(), _Devices(trial, THREE)
    for pair in run.track(trial.pairs, trial.text(THREE_PATTERNS, run)):
        with closing(devices.met(pair, run)) as fleet:
            auc = _after(fleet, pair.tested(trial.data), pair)
        found[pair] = found[pair[::-1]] = auc
    return {THREE_PATTERNS: found.tolist()}


class _Devices:
    """Each learns its pattern once; in every pair that it is in it begins from that state."""

    def __init__(self, trial: Trial, rule: PatternRule | None) -> None:
        self._trial = trial
        self._rule = rule
        basis = trial.setting.basis(trial.data.width, SEED + trial.number)
        self._charter = Charter("devices", basis)
        self._states: dict[str, bytes] = {}

    def met(self, pair: Pair, run: Run) -> Fleet:
        """A fleet of the two devices, which have not heard from each other yet."""
        fleet = Fleet(self._charter.basis, self._rule, run.meeting)
        parts = pair.learned(self._trial.data, self._trial.most)
        for name, rows in zip(_names(pair), parts, strict=True):
            if name not in self._states:
                member = self._charter.start(name, patterns=self._rule)
                member.detector.learn_many(self._trial.data.train[rows])
                self._states[name] = member.to_bytes()
            fleet.join(Member.from_bytes(self._states[name]))
        return fleet


def _names(pair: Pair) -> tuple[str, str]:
    """A device is called after what it learns; of one pattern each has half."""
    if pair.a == pair.b:
        return f"{pair.a}-first-half", f"{pair.a}-second-half"
    return f"{pair.a}", f"{pair.b}"


def _after(fleet: Fleet, tested: Tested, pair: Pair) -> float:
    """Device A's, after the update."""
    fleet.sync()
    return _auc(fleet, tested, _names(pair)[0])


def _auc(fleet: Fleet, tested: Tested, name: str) -> float:
    return tested.auc(fleet.detector(name).score_many)
