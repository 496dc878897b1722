"""What is to be seen in a picture, in words: its title."""

import numpy as np

from elmgrove.detector.picture.course import TIME, Course
from elmgrove.detector.verdict import Cause
from elmgrove.reading import time_told


def title(course: Course) -> str:
    """Says in words what is to be seen."""
    name = f"{course.name}: " if course.name else ""
    said = _of_state(course) if course.waiting is not None else _of_rows(course)
    return name + said + (f" ({course.remark})" if course.remark else "")


def when(course: Course, place: int) -> str:
    """Says where a row is: its time, its line or its number."""
    value = float(course.where[place])
    if course.axis != TIME:
        return f"{course.axis} {value:,.0f}"
    return time_told(value)


def because(cause: Cause) -> str:
    """Says what a sensor has shown, and what it should have."""
    return f"{cause.feature} was {cause.seen:.4g}, not {cause.expected:.4g}"


def _of_state(course: Course) -> str:
    learned = course.waiting or 0
    waiting = len(course.scores) - learned
    kept = f"the last {_counted(learned, course)} it learned"
    if not waiting:
        return f"{kept}; nothing waits in quarantine"
    those, are = ("one", "waits") if waiting == 1 else ("ones", "wait")
    return f"{kept}, and {waiting:,} strange {those} that {are} in quarantine"


def _of_rows(course: Course) -> str:
    strange, count = int(course.anomalous.sum()), len(course.scores)
    rows = _counted(count, course)
    if not strange:
        if not np.isfinite(course.thresholds).any():
            return f"{rows}"
        highest = float(course.times[course.worst])
        return f"nothing strange in {rows}; the highest score is {highest:.2g} × the threshold"
    share = f"{strange:,} of {rows} {'is' if strange == 1 else 'are'} strange"
    if 2 * strange > count > 1:
        return f"{share}: another machine, or a new normal?{_worst(course, ' The strangest:')}"
    if not len(course.spells):
        return f"{share}, too few together for an event"
    events = "1 event" if len(course.spells) == 1 else f"{len(course.spells):,} events"
    which = "" if len(course.spells) == 1 else " the worst"
    return f"{events} in {rows},{which} at {when(course, _peak(course))}{_worst(course, ':')}"


def _worst(course: Course, before: str) -> str:
    [causes] = course.sensors.causes([_peak(course)])
    return f"{before} {because(causes[0])}" if causes else ""


def _peak(course: Course) -> int:
    if not len(course.peaks):
        return course.worst
    return int(course.peaks[course.times[course.peaks].argmax()])


def _counted(count: int, course: Course) -> str:
    return f"{count:,} {course.counted if count != 1 else course.counted.removesuffix('s')}"
