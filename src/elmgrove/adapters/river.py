"""The detector as an anomaly detector of River, over dicts."""

from collections.abc import Hashable, Sequence
from typing import Any

from elmgrove.algebra.basis import default_score
from elmgrove.algebra.layer import HiddenLayer, suggested_units
from elmgrove.detector.detector import Detector
from elmgrove.errors import BadInput, require_extra

try:
    from river.base import AnomalyDetector
except ImportError:
    require_extra("river", "river")
    raise

Row = dict[Hashable, Any]


class ElmgroveDetector(AnomalyDetector):
    """Scores how unlike the rows it learned a row is, by a ``Detector`` (``detector``) inside.

    Works where normal rows are one cloud, however stretched; not where they are several clouds far
    apart. It learns every row it is given: ``river.anomaly.QuantileFilter`` keeps anomalous ones
    out. Scores are distances without an upper end (``RollingROCAUC`` judges them, ``ROCAUC``
    can't), about 1 for a typical row whatever the units, 0 before the first row. With
    ``score="loss"``, or an activation other than the identity, they are mean squared errors of
    reconstructing the row; then put a scaler before it, as with more than 64 features: of those
    of different size the largest would decide alone. With a ``window`` the last so many rows
    learned and the row in question are scored together.

    All rows have the same features: ``features``, or those of the first row learned, sorted by
    name. A row that lacks one or brings another is ``BadInput``: what a missing value would
    have been is not for a detector to guess. ``units`` None means as many as
    ``elmgrove.algebra.suggested_units`` says. The other parameters are the detector's.

    >>> model = ElmgroveDetector()
    >>> for t in range(200):
    ...     load = t * 7 % 100
    ...     model.learn_one({"load": load, "heat": 20 + load / 2, "fan": 900 + 3 * load})
    >>> normal, broken = {"load": 80, "heat": 60, "fan": 1140}, {"load": 80, "heat": 60, "fan": 0}
    >>> round(model.score_one(normal), 1), round(model.score_one(broken), 1)
    (0.5, 6590.0)
    """

    def __init__(
        self,
        units: int | None = None,
        activation: str = "identity",
        weights: str = "uniform",
        ridge: float = 1e-3,
        forgetting: float = 1.0,
        features: Sequence[Hashable] | None = None,
        seed: int = 0,
        score: str | None = None,
        window: int = 1,
    ) -> None:
        self.units = units
        self.activation = activation
        self.weights = weights
        self.ridge = ridge
        self.forgetting = forgetting
        self.features = features
        self.seed = seed
        self.score = score
        self.window = window
        #: The detector inside; None before the first row.
        self.detector: Detector | None = None
        self._names: tuple[Hashable, ...] = ()

    def learn_one(self, x: Row) -> None:
        """Learns a normal row; on bad input raises ``BadInput`` and stays as it was."""
        if self.detector is not None:
            self.detector.learn_one(self._values(x, self._names))
            return
        names = tuple(sorted(x, key=str) if self.features is None else self.features)
        detector = self._fresh(names)
        detector.learn_one(self._values(x, names))
        self.detector, self._names = detector, names

    def score_one(self, x: Row) -> float:
        """Scores how anomalous a row is; never learns."""
        if self.detector is None:
            return 0.0
        return self.detector.score_one(self._values(x, self._names))

    def _fresh(self, names: tuple[Hashable, ...]) -> Detector:
        score = self.score or default_score(self.activation)
        inputs = len(names) * self.window
        units = suggested_units(inputs, score) if self.units is None else self.units
        layer = HiddenLayer(len(names), units, self.activation, self.weights, self.seed)
        return Detector(
            layer,
            score=score,
            window=self.window,
            features=[str(name) for name in names],
            ridge=self.ridge,
            forgetting=self.forgetting,
        )

    @staticmethod
    def _values(x: Row, names: tuple[Hashable, ...]) -> list[Any]:
        if odd := sorted(x.keys() ^ set(names), key=str):
            fault = "missing" if odd[0] in names else "not one of those learned before"
            raise BadInput(f"the feature {odd[0]!r} is {fault}")
        return [x[name] for name in names]

    def _unit_test_skips(self) -> set[str]:
        """River's checks that let features come and go, which a fixed set of inputs rules out."""
        ways = ("emerging", "disappearing", "radically_disappearing")
        return {f"check_{way}_features" for way in ways}
