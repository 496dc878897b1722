"""ONLAD: an OS-ELM autoencoder that forgets, where what is normal changes.

Tsukada, Kondo and Matsutani, "A Neural Network-Based On-Device Learning Anomaly Detector for Edge
Devices" (IEEE Transactions on Computers 2020; arXiv 1907.10147). At hand were its abstract and
what Ito 2020 and 2021 say of it (§4: batches of one row, a forgetting mechanism without pseudo
inverse; §5.1.2: a forget factor α, of which 1 is none), not its equations nor its data. Taken for
its rule is recursive least squares with a forget factor, row by row (``recursion``). Whether the
weight of a row is printed as α or as α² could not be looked up: here φ is that weight. Ours, since
not at hand: the data (HAR), the layer (Ito 2021's Table 3), and how it is judged, in both ways in
which a change can be meant: the new pattern instead of all before it, or as one more.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from elmgrove.algebra import Array, Basis, HiddenLayer
from elmgrove.detector import SPIKE, Detector, accept
from elmgrove_papers.answers import Score
from elmgrove_papers.data import Labelled, har_scaled
from elmgrove_papers.earlier.streams import Stream, activities
from elmgrove_papers.figure import SEED, Numbers, Run

#: The weights that a row keeps with each later one; 1 forgets nothing.
WEIGHTS = (1.0, 0.999, 0.99, 0.97, 0.95, 0.9)
UNITS = 128
#: Activities of a stream; the sixth is never normal.
PHASES = 5
#: Rows between two tests.
EVERY = 100
FIXED = "never again"
NEWEST, SO_FAR = "the newest is normal", "all so far are normal"
SCORE = "median score of the newest"
#: What a model has at one time: ROC-AUC by both meanings, and the loss on the newest pattern.
Point = dict[str, float]


def recursion(P: Array, beta: Array, h: Array, t: Array, weight: float) -> tuple[Array, Array]:
    """Learns one row by P and β alone, as printed for OS-ELM, with P / φ in the place of P.

    P⁻¹ is φ times what it was, plus hᵀh; so all that P began with fades as well, a ridge too.
    """
    P = P / weight
    # Ito 2021, (10) with k = 1: the inverse is that of a number.
    P = P - P @ h.T @ h @ P / (1.0 + float((h @ P @ h.T).item()))
    return P, beta + P @ h.T @ (t - h @ beta)


@dataclass
class Accepting:
    """A detector that watches by distance; a person says of each change told: a new normal.

    ``instead`` lets it take the place of all that was learned before.
    """

    detector: Detector
    instead: bool
    #: After how many rows of the stream changes were told.
    told: list[int] = field(default_factory=list)
    seen: int = 0

    def learn_many(self, rows: Array) -> None:
        """Observes rows one by one, and answers what is asked."""
        for row in rows:
            self.seen += 1
            drift = self.detector.observe(row).drift
            if drift is not None and drift.kind != SPIKE:
                self.told.append(self.seen)
                accept(self.detector, instead=self.instead)


def forgetting(run: Run) -> Numbers:
    """Gives ROC-AUC and loss over time; means over orders of the activities, the file's first.

    Full: ten orders, 600 rows of each activity. Quick: two, 400 rows.
    """
    data, most = har_scaled(run.data), run.at_most(600, 400)
    courses = list[dict[str, list[Point]]]()
    told = dict[str, dict[str, list[int]]]()
    for order in run.track(list(_orders(data, run.at_most(10, 2))), "Orders"):
        stream = activities(data, order, most)
        found, changes = _tried(stream)
        courses.append(found)
        told[" → ".join(phase.name.lower() for phase in stream.phases)] = changes
    over_time = {
        model: [_mean([one[model][place] for one in courses]) for place in range(len(points))]
        for model, points in courses[0].items()
    }
    steps = len(next(iter(over_time.values()))) // PHASES
    return {
        "at the end of a phase, mean over all but the first": {
            model: _mean(points[2 * steps - 1 :: steps]) for model, points in over_time.items()
        },
        f"mean over time, {EVERY} rows after a change on": {
            model: _mean(points[steps:]) for model, points in over_time.items()
        },
        "changes told, after rows": told,
        "over time": {
            f"{model}, {key}": {
                str(EVERY * (place + 1)): point[key] for place, point in enumerate(points)
            }
            for key in (NEWEST, SO_FAR, SCORE)
            for model, points in over_time.items()
        },
        "rows a phase": most,
        "orders": len(courses),
        "features": data.width,
    }


def _orders(data: Labelled, count: int) -> Iterator[list[int]]:
    """The file's order, then others at random."""
    rng = np.random.default_rng(SEED)
    yield list(range(PHASES))
    for _ in range(count - 1):
        yield rng.permutation(len(data.names))[:PHASES].tolist()


def _tried(stream: Stream) -> tuple[dict[str, list[Point]], dict[str, list[int]]]:
    """Lets each model live through a stream; also when ours told of a change."""
    first = stream.phases[0].rows
    width = first.shape[1]
    basis = Basis(HiddenLayer(width, UNITS, "identity", "uniform", seed=SEED), width, score="loss")
    # A user has the first rows alone when a detector is made.
    ours = Basis.fitted(first, None, scaling="standard", seed=SEED)
    fixed = Detector.for_basis(basis)
    fixed.learn_many(first)
    found = {FIXED: _course(stream, lambda rows: None, fixed.score_many)}
    for weight in WEIGHTS:
        model = Detector.for_basis(basis, forgetting=weight)
        found[f"φ = {weight:g}"] = _course(stream, model.learn_many, model.score_many)
    changes = dict[str, list[int]]()
    for instead in (True, False):
        mine = Accepting(Detector.for_basis(ours), instead)
        name = f"distance, accepted {'instead' if instead else 'as well'}"
        found[name] = _course(stream, mine.learn_many, mine.detector.score_many)
        changes[name] = mine.told
    return found, changes


def _course(stream: Stream, learn: Callable[[Array], None], score: Score) -> list[Point]:
    points = []
    for place, phase in enumerate(stream.phases):
        for start in range(0, len(phase.rows), EVERY):
            learn(phase.rows[start : start + EVERY])
            points.append(
                {
                    NEWEST: stream.newest(score, place),
                    SO_FAR: stream.so_far(score, place),
                    SCORE: float(np.median(score(phase.tested))),
                }
            )
    return points


def _mean(points: list[Point]) -> Point:
    return {key: float(np.mean([point[key] for point in points])) for key in points[0]}
