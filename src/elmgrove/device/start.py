"""How a device begins: with its state, its federation, another device's file, or its first rows."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmgrove.algebra import OWN, Array, Basis
from elmgrove.detector import (
    TUNABLE,
    AlarmRule,
    Detector,
    FalseAlarmRate,
    PatternRule,
    choose_window,
    tune,
)
from elmgrove.device.settings import Settings
from elmgrove.device.sources import Source
from elmgrove.errors import BadInput
from elmgrove.exchange import Backoff, Exchange, Unreachable
from elmgrove.federation import Charter, Member, basis_of
from elmgrove.reading import LAYOUT, Layout, doubts_about, read_table
from elmgrove.storage import load

log = logging.getLogger("elmgrove.device")

# What a setting says that leaves a thing as it is.
_AS_IT_IS = {"units": 0, "window": "auto", "spectrum": "", "patterns": "auto"}


def member_from_state(settings: Settings) -> Member | None:
    """Loads the member that was saved; None the first time."""
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
    """Makes a member by the federation's charter; waits for the exchange as long as it takes.

    The same trouble is told once. What the device's user has to mend is raised.
    """
    backoff, told = Backoff(), ""
    while not stopped():
        try:
            charter = exchange.charter
            rows = _normal_rows(settings, charter.basis)
            return _member(settings, charter, rows, "the federation has")
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


def member_like(settings: Settings) -> Member:
    """Makes a member with the basis of a state or an evidence file."""
    basis = load(Path(settings.like), basis_of)
    rows = _normal_rows(settings, basis)
    return _member(settings, Charter("alone", basis), rows, f"{settings.like} has")


def member_for_rows(settings: Settings, rows: Sequence[Sequence[float]], source: Source) -> Member:
    """Makes a member whose scaling and window fit the first rows of a source."""
    if settings.units_from:
        raise BadInput("units_from: without exchange and like, the first rows decide")
    X = np.array(rows, np.float64)
    for doubt in doubts_about(source.names or [str(i + 1) for i in range(X.shape[1])], X):
        log.warning("%s", doubt)
    basis = Basis.fitted(
        X,
        source.names,
        scaling=settings.scaling,
        units=settings.units or None,
        seed=settings.seed,
        window=_window(settings, X),
        score=settings.score,
        spectrum=settings.chosen_spectrum,
        categories=source.categories,
    )
    units_from = X if basis.scaling.kind == OWN else None
    return _member(settings, Charter("alone", basis), units_from, "these rows have")


def layout_for(settings: Settings, member: Member | None) -> Layout:
    """Gives how the rows are written: as the settings say, or else as when the state was made."""
    remembered = {} if member is None else member.notes.get(LAYOUT, {})
    return settings.layout.after(remembered)


def require_width(source: Source, member: Member) -> None:
    """Raises ``BadInput`` if the rows can't be those that the member learned."""
    wanted = member.detector.basis.columns
    if source.width not in (None, wanted):
        raise BadInput(f"the rows have {source.width} columns, where {wanted} are learned")


def _window(settings: Settings, rows: Array) -> int:
    if settings.window != "auto":
        return int(settings.window)
    choice = choose_window(rows, settings.chosen_spectrum)
    log.info("window of %d: %s", choice.window, choice.reason)
    return choice.window


def _member(settings: Settings, charter: Charter, units_from: Array | None, found: str) -> Member:
    made = _detector_settings(settings)
    member = charter.start(settings.own_name, units_from=units_from, **made)
    if settings.layout.fields:
        member.notes[LAYOUT] = settings.layout.fields
    _require_made_so(settings, member.detector, found)
    return member


def _normal_rows(settings: Settings, basis: Basis) -> Array | None:
    """The rows that tell this device's own units; None where none are given."""
    if not settings.units_from:
        return None
    path = Path(settings.units_from)
    return read_table(path, Layout(drop=tuple(settings.drop)), features=basis.features).array


def _detector_settings(settings: Settings) -> dict[str, Any]:
    return {
        "merged": settings.merged,
        "patterns": settings.pattern_rule,
        "threshold": FalseAlarmRate(settings.rate, settings.confidence),
        "forgetting": settings.forgetting,
        "alarm": AlarmRule(settings.alarm_k, settings.alarm_n, settings.alarm_cooldown),
        # 0 is how a setting says never.
        "promote_after": settings.promote_after or None,
        "increment": settings.increment,
    }


def _require_made_so(settings: Settings, detector: Detector, found: str) -> None:
    """Raises ``BadInput`` if a setting was given that says another thing than what was found."""
    basis, rule = detector.basis, detector.patterns
    made: dict[str, tuple[Any, Any]] = {
        "scaling": (basis.scaling.kind, settings.scaling),
        "units": (basis.layer.units, settings.units),
        "window": (str(basis.window), settings.window),
        "spectrum": (basis.spectrum or "none", settings.chosen_spectrum),
        "score": (basis.score, settings.score),
        "seed": (basis.layer.seed, settings.seed),
        "patterns": ("1" if rule is None else str(rule.patterns), settings.patterns),
        "compare": ((rule or PatternRule()).compare, settings.compare),
        "others": ((rule or PatternRule()).others, settings.others),
        "increment": (detector.increments.seconds, settings.increment),
    }
    for name, (had, wanted) in made.items():
        if name not in settings.given or getattr(settings, name) == _AS_IT_IS.get(name):
            continue
        if had != wanted:
            raise BadInput(
                f"{name}: {found} {had}, not {wanted}, and only learning again would change that; "
                "leave the setting out, or begin with another state file"
            )


def _tune(settings: Settings, detector: Detector) -> None:
    """Lets settings that were given hold for a device that was made with others."""
    given = {name: getattr(settings, name) for name in TUNABLE if name in settings.given}
    for change in tune(detector, **given):
        log.info("settings: %s", change)
