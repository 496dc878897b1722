"""Ito 2019's runtime tuning of the number of instances, beside fixed numbers and our patterns.

One pattern after another becomes normal, and none ceases to be; then all come back, for which no
new instance should be needed. What the rule is, and what of it was not at hand: ``instances.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from elmgrove.algebra import Array, Basis, HiddenLayer
from elmgrove.detector import Detector, PatternRule
from elmgrove_papers.answers import Score
from elmgrove_papers.data import har_scaled, recordings
from elmgrove_papers.earlier.instances import Instances
from elmgrove_papers.earlier.promotion import Promoting
from elmgrove_papers.earlier.streams import Stream, activities, fan_speeds
from elmgrove_papers.figure import SEED, Numbers, Run

UNITS = 32
#: How many times what is typical is too much; none was chosen: all are shown.
FACTORS = (2.0, 3.0, 5.0)
#: Instances at most, where the number is fixed.
FIXED = (1, 3)
#: Ours: patterns as the first rows decide, and one more for so many anomalous rows that are alike.
RULE, PROMOTE_AFTER = PatternRule(most=10, start_rows=128), 50
#: Rows between two tests.
EVERY = 100
#: What is noted at each test.
KEYS = ("models", "auc", "score")


@dataclass(frozen=True)
class Tried:
    """Something that learns a stream and scores, and how many models it has by now."""

    learn: Callable[[Array], object]
    score: Score
    count: Callable[[], int]


def instances(run: Run) -> Numbers:
    """Gives the number of instances and the ROC-AUC over time, on activities and on a fan.

    Quick: 150 rows of each pattern instead of 300.
    """
    most = run.at_most(300, 150)
    streams = {
        "HAR": activities(har_scaled(run.data), range(5), most),
        "fan": _cut(fan_speeds(recordings(run.data), "12cm", ("silentA", "noisy")), most),
    }
    ends, over_time = Numbers(), Numbers()
    for name, stream in streams.items():
        models = _models(stream)
        over_time[name] = {
            text: _course(stream, models[text]) for text in run.track(list(models), name)
        }
        ends[name] = {text: _summary(stream, rows) for text, rows in over_time[name].items()}
    patterns = {name: len(stream.phases) for name, stream in streams.items()}
    return {
        "at the end": ends,
        **{
            f"{key} over time": {
                f"{name}, {text}": {rows: point[key] for rows, point in course.items()}
                for name, models in over_time.items()
                for text, course in models.items()
            }
            for key in KEYS
        },
        "patterns": patterns,
        "rows each": most,
    }


def _cut(stream: Stream, most: int) -> Stream:
    phases = tuple(replace(phase, rows=phase.rows[:most]) for phase in stream.phases)
    return replace(stream, phases=phases)


def _models(stream: Stream) -> dict[str, Tried]:
    first = stream.phases[0].rows
    width = first.shape[1]
    basis = Basis(HiddenLayer(width, UNITS, seed=SEED), width, score="loss")
    found = {f"tuned, factor {factor:g}": Instances(basis, factor=factor) for factor in FACTORS}
    found |= {f"at most {most}": Instances(basis, most=most) for most in FIXED}
    tried = {name: _instances(made) for name, made in found.items()}
    ours = Basis.fitted(first, None, scaling="standard", seed=SEED)
    for name, one in (("loss", basis), ("distance", ours)):
        made = Promoting(Detector.for_basis(one, patterns=RULE), PROMOTE_AFTER)
        tried[f"patterns (auto), {name}"] = _promoting(made)
    return tried


def _instances(made: Instances) -> Tried:
    return Tried(made.learn_many, made.score_many, lambda: len(made.models))


def _promoting(made: Promoting) -> Tried:
    return Tried(made.learn, made.detector.score_many, lambda: len(made.detector.parts))


def _course(stream: Stream, tried: Tried) -> dict[str, dict[str, float]]:
    """Through all phases, and once more through all; by then every pattern is normal."""
    found = dict[str, dict[str, float]]()
    rows = 0
    last = len(stream.phases) - 1
    for number, phase in enumerate([*stream.phases, *stream.phases]):
        known = min(number, last)
        for start in range(0, len(phase.rows), EVERY):
            block = phase.rows[start : start + EVERY]
            tried.learn(block)
            rows += len(block)
            score = float(np.mean(tried.score(stream.known(known))))
            noted = (tried.count(), stream.so_far(tried.score, known), score)
            found[str(rows)] = dict(zip(KEYS, noted, strict=True))
    return found


def _summary(stream: Stream, course: dict[str, dict[str, float]]) -> dict[str, float]:
    """What there is after the first time through, and after the second; and the mean ROC-AUC."""
    points = list(course.values())
    first, end = points[len(points) // 2 - 1], points[-1]
    return {
        "models, first time": first["models"],
        "models, second time": end["models"],
        "auc, first time": first["auc"],
        "auc, second time": end["auc"],
        "auc, mean over time": float(np.mean([point["auc"] for point in points])),
        "mean score at the end": end["score"],
    }
