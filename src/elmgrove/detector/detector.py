"""The detector: an OS-ELM autoencoder that decides, learns and cooperates."""

from collections.abc import Sequence
from typing import Any

from elmgrove.algebra import OSELM, Basis, Evidence
from elmgrove.detector.verdict import Blame, Cause
from elmgrove.detector.watcher import LEARNING, WATCHING, Watcher

__all__ = ["LEARNING", "WATCHING", "Detector"]


class Detector(Watcher[OSELM]):
    """Learns what normal rows look like, and says how strange a row is.

    It reconstructs each row from a few hidden units and scores it by the mean squared error
    (Ito 2021, §3.4): the more a row differs from what was learned, the higher. It works where
    normal rows have something in common that fewer numbers than columns can say; it does not
    where columns are independent noise, nor where an anomaly is a normal row at the wrong time.
    Columns of different size need scaling, or the largest decides alone.

    ``learn_one`` and ``learn_many`` are for rows known to be normal. ``observe`` is for a
    stream: it scores, decides, and learns the row unless it is strange (strange rows wait in
    ``quarantine``). Nothing is flagged until ``warmup`` rows were learned (twice the hidden
    units unless stated) and the threshold has the rows it needs; ``state`` tells. ``merge``
    takes in what others learned; ``evidence`` is what this device learned itself, for others.

    >>> import numpy as np
    >>> from elmgrove import HiddenLayer
    >>> rng = np.random.default_rng(0)
    >>> normal = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 6))
    >>> detector = Detector(HiddenLayer(inputs=6, units=3, seed=7))
    >>> detector.learn_many(normal)
    >>> strange = normal[0] + [9, 0, 0, 0, 0, 0]
    >>> verdict = detector.observe(strange)
    >>> verdict.anomalous, verdict.learned, detector.blame(strange)[0].feature
    (True, False, 'column 0')
    """

    _blame: Blame | None = None

    def _made(self, basis: Basis, ridge: float, forgetting: float, dtype: Any) -> OSELM:
        return OSELM(
            basis.layer, basis.outputs, ridge=ridge, forgetting=forgetting, dtype=dtype, basis=basis
        )

    def blame(self, row: Any, k: int = 3) -> list[Cause]:
        """The k features that would, each alone with another value, explain most of the error."""
        x, _ = self._prepared(row)
        if self._blame is None or self._blame.beta is not self.model.beta:
            self._blame = Blame(self.model)
        return self._blame.causes(x, self.model.predict_one(x), k)

    # Cooperation

    @property
    def received(self) -> Evidence | None:
        """What others learned and this detector took in, as one sum."""
        return self.model.prior

    @received.setter
    def received(self, evidence: Evidence | None) -> None:
        self.model.prior = evidence
        self._changed(0)

    def rest_on(self, parts: Sequence[Evidence]) -> None:
        """Lets the sum of these take the place of all that was received from others."""
        self.received = Evidence.sum(parts) if parts else None

    def merge(self, evidence: Evidence) -> None:
        """The cooperative model update (Ito 2021, §4.2), in one shot.

        From now on the model is the one that learning the other's rows as well would have
        given. Merging adds: the same evidence twice counts twice. ``Member`` keeps contributions
        apart by origin, so that a newer one replaces the older.
        """
        self.basis.require(evidence.basis)
        # The sum could hide what the part is not.
        evidence.require_admissible("this evidence can't be merged")
        self.model.rest_on(evidence if self.received is None else self.received + evidence)
        self._changed(0)

    def subtract(self, evidence: Evidence) -> None:
        """Takes evidence that was merged out again."""
        self.basis.require(evidence.basis)
        held = Evidence.zero(self.basis) if self.received is None else self.received
        self.model.rest_on(held.without(evidence))
        self._changed(0)
