"""How a device begins: with its state, its federation, another device's file, or its first rows."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.detector.detector import Detector
from elmgrove.detector.inputs import choose_window, rows_to_decide
from elmgrove.detector.thresholds import FalseAlarmRate
from elmgrove.detector.tuning import tune
from elmgrove.device.settings import Settings
from elmgrove.device.sources.text import Reading, Source
from elmgrove.errors import BadInput, ElmgroveError, Mismatch, Unreachable
from elmgrove.exchange.backoff import Backoff
from elmgrove.exchange.base import Exchange
from elmgrove.federation.charter import Charter, basis_of, joined
from elmgrove.federation.member import Member
from elmgrove.reading.columns import warnings_about
from elmgrove.reading.layout import LAYOUT, Layout
from elmgrove.reading.table import read_table
from elmgrove.reading.times import when_text
from elmgrove.storage.disk import load

log = logging.getLogger("elmgrove.device")


def member_from_state(settings: Settings) -> Member | None:
    if not settings.path.exists():
        return None
    member = load(settings.path, Member.from_bytes)
    if settings.name not in ("", member.name):
        raise BadInput(
            f"{settings.path} is the state of {member.name!r}, not of {settings.name!r}: leave the "
            "name out, or choose another state file"
        )
    _require_made_so(settings, member.detector, f"{settings.path} has")
    if settings.merged:
        member.follow(merges=True)
    _tune(settings, member.detector)
    return member


def member_from_federation(
    settings: Settings, exchange: Exchange, stopped: Callable[[], bool]
) -> Member | None:
    """Makes a member by the federation's charter; waits for the exchange as long as it takes."""
    backoff, told = Backoff(), ""
    while not stopped():
        try:
            return _member(settings, exchange.charter, "the federation has")
        except Unreachable as error:
            wait = backoff.failed(error.retry_after)
            if str(error) != told:
                log.warning(
                    "%s; the device can't begin without the federation's layer, next try in %.0f s",
                    error,
                    wait,
                )
            told = str(error)
            until = time.monotonic() + wait
            while time.monotonic() < until and not stopped():
                time.sleep(0.1)
    return None


def member_joined(settings: Settings, exchange: Exchange, member: Member) -> Member:
    """Converts what a device learned by itself to what the federation has in common.

    Where the federation can't be asked now the device begins as it is.
    """
    if not member.alone:
        return member
    try:
        charter = exchange.charter
    except ElmgroveError:
        # The first sync says what is wrong.
        return member
    try:
        made = joined(member, charter)
    except Mismatch as error:
        new = settings.path.with_name(f"{settings.path.stem}-{charter.name}{settings.path.suffix}")
        raise BadInput(
            f"{error}. Begin with a new state: elmgrove device run --state {new} --exchange "
            f"{settings.exchange} --source {settings.source}; normal rows of before are learned "
            f"by elmgrove learn FILE --state {new}"
        ) from error
    if made is not member:
        log.info("what was learned was converted to what %s has in common", charter.name)
    return made


def member_like(settings: Settings) -> Member:
    basis = load(Path(settings.like), basis_of)
    return _member(settings, Charter("alone", basis), f"{settings.like} has")


def member_for_rows(settings: Settings, rows: Sequence[Sequence[float]], source: Source) -> Member:
    """Makes a member whose scaling and window fit the first rows of a source."""
    if settings.units_from:
        raise BadInput("units_from: without exchange and like, the first rows decide")
    X = np.array(rows, np.float64)
    for doubt in warnings_about(source.names or [str(i + 1) for i in range(X.shape[1])], X):
        log.warning("%s", doubt)
    window = settings.window
    if window == "auto":
        choice = choose_window(X, settings.chosen_spectrum)
        log.info("window of %d: %s", choice.window, choice.reason)
        window = str(choice.window)
    return _made_for(settings, X, source, int(window))


def _made_for(settings: Settings, X: Array, source: Source, window: int) -> Member:
    basis = Basis.fitted(
        X,
        source.names,
        scaling="standard",
        window=window,
        spectrum=settings.chosen_spectrum,
    )
    return _member(settings, Charter("alone", basis), "these rows have")


class Begun:
    """The rows of a device that began with too few to decide its window, until there are enough.

    It is decided again when there are some, and for good when there are as many as ``learn`` looks
    at. A window that was stated is kept.
    """

    def __init__(self, settings: Settings, source: Source, member: Member) -> None:
        self._settings, self._source, self._member = settings, source, member
        self._rows = list[Reading]()
        steps = rows_to_decide(member.detector.basis.layer.inputs)
        self._steps = list(steps) if settings.window == "auto" and any(steps) else []

    def add(self, reading: Reading) -> tuple[Detector, list[Reading]] | None:
        """Takes in a row that was learned; see ``decide`` for what it gives with the last one."""
        if not self._steps:
            return None
        when = time.time() if reading.time is None else reading.time
        self._rows.append(reading._replace(time=when))
        frames = self._member.detector.basis.frames_in(len(self._rows))
        return self.decide() if frames >= self._steps[0] else None

    def decide(self) -> tuple[Detector, list[Reading]] | None:
        """Returns a detector with another window if the rows ask for it, and the rows to learn.

        Where an event is open, or others were given something, it is too late for another window.
        """
        rows, member, settings = self._rows, self._member, self._settings
        if not (self._steps and rows) or member.detector.events.open or member.published:
            self._steps, self._rows = [], []
            return None
        del self._steps[0]
        if not self._steps:
            self._rows = []
        basis = member.detector.basis
        X = np.array([one.row for one in rows], np.float64)
        choice = choose_window(X, settings.chosen_spectrum)
        if choice.window == basis.window:
            return None
        made = _made_for(settings, X, self._source, choice.window).detector
        log.info(
            "window of %d instead of %d: the %d rows so far decided again, and were learned again",
            choice.window,
            basis.window,
            len(rows),
        )
        return made, rows


class LearnedAlready:
    """Skips rows of times that had been learned before the source was opened, and says so.

    A source that is read on from where it was read up to gives none of them again, and its clock
    may go back: there nothing is skipped.
    """

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        self._spans = spans
        self._skipped, self._until, self._follows = 0, 0.0, True

    def passed(self, reading: Reading) -> Reading | None:
        time = reading.time
        if time is not None and any(first <= time <= last for first, last in self._spans):
            self._skipped, self._until, self._follows = self._skipped + 1, time, False
            return None
        self.tell()
        follows, self._follows = self._follows and reading.follows, True
        return reading._replace(follows=follows)

    def tell(self) -> None:
        if self._skipped:
            until = when_text(self._until)
            log.info("skipped %d rows that were learned already (up to %s)", self._skipped, until)
        self._skipped = 0


def _member(settings: Settings, charter: Charter, found: str) -> Member:
    units = None
    if settings.units_from:
        path, layout = Path(settings.units_from), Layout(drop=tuple(settings.drop))
        units = read_table(path, layout, features=charter.basis.features).rows
    member = charter.start(
        settings.own_name,
        units_from=units,
        merged=settings.merged,
        patterns=settings.pattern_rule,
        threshold=FalseAlarmRate(settings.rate, 0.0 if settings.watch_now else 0.95),
        alarm=settings.alarm_rule,
    )
    if settings.layout.fields:
        member.notes[LAYOUT] = settings.layout.fields
    _require_made_so(settings, member.detector, found)
    return member


def _require_made_so(settings: Settings, detector: Detector, found: str) -> None:
    """Raises ``BadInput`` if a setting was given that says another thing than what was found."""
    basis, rule = detector.basis, detector.patterns
    made: dict[str, tuple[Any, Any]] = {
        "window": (str(basis.window), settings.window),
        "spectrum": (basis.spectrum or "none", settings.chosen_spectrum),
        "patterns": ("1" if rule is None else str(rule.patterns), settings.patterns),
    }
    for name, (had, wanted) in made.items():
        # These mean as it is.
        if name not in settings.given or getattr(settings, name) in ("auto", ""):
            continue
        if had != wanted:
            raise BadInput(
                f"{name}: {found} {had}, not {wanted}, and only learning again would change that; "
                "leave the setting out, or begin with another state file"
            )


def _tune(settings: Settings, detector: Detector) -> None:
    given: dict[str, float] = {}
    if "rate" in settings.given:
        given["rate"] = settings.rate
    if "watch_now" in settings.given:
        given["confidence"] = 0.0 if settings.watch_now else 0.95
    if "alarm" in settings.given:
        rule = settings.alarm_rule
        given |= {"alarm_k": rule.k, "alarm_n": rule.n, "alarm_cooldown": rule.cooldown}
    for change in tune(detector, **given):
        log.info("settings: %s", change)
