"""Ito 2019: several OS-ELM autoencoders on one device, whose number is tuned at run time.

Ito, Tsukada, Kondo and Matsutani, "An Adaptive Abnormal Behavior Detection using Online Sequential
Learning" (CSE/EUC 2019). At hand were its abstract and what Ito 2020 and 2021 (§4) say of it, not
its algorithm. Taken from there: an initial period is learned as normal; each instance is an OS-ELM
autoencoder of one normal pattern; the lowest loss of any is a row's; a row of high loss is not
learned; the number of instances follows the recent normal patterns. Ours, since not at hand: when
a loss is high, when an instance is added, and when two are one.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from elmgrove.algebra import OSELM, Array, Basis, fit, groups, usual_tolerance

RIDGE = 1e-3
#: Rows between two looks at what is typical of each instance, and at which are one.
EVERY = 50


class Instances:
    """Autoencoders with one layer, of which the one with the lowest raw loss learns a row.

    A row is explained while its loss is at most ``factor`` times what is typical of that instance
    (by cross-validation, from its sums: as long as that can't be told, all rows are). Rows that
    none explains wait; when ``enough`` of the last twice as many wait, they become an instance,
    unless there are ``most``: then such rows are learned like others. Instances of which one model
    explains all rows as well become one, exactly, as their sum. It takes normal rows for a pattern
    where they differ less from each other than from all before; a fault that stays is one as well.
    """

    def __init__(
        self, basis: Basis, *, factor: float = 3.0, enough: int = 50, most: int = 10
    ) -> None:
        self.basis, self.factor, self.enough, self.most = basis, factor, enough, most
        self.models = [self._blank()]
        self._typical = [np.inf]
        self._waiting: deque[tuple[int, Array]] = deque()
        self._seen = 0
        #: How often an instance was added, and how often two became one.
        self.added, self.joined = 0, 0

    @classmethod
    def of(cls, basis: Basis, patterns: Sequence[Array]) -> "Instances":
        """Makes an instance for each of several patterns that are known, and never another one."""
        made = cls(basis, most=len(patterns))
        made.models = [made._learned(rows) for rows in patterns]
        made._measure()
        return made

    def losses(self, X: Array) -> Array:
        """Computes the raw loss of each row (columns) by each instance (rows): Ito 2021, §3.4."""
        H = self.basis.layer(X)
        return np.array([((X - H @ model.beta) ** 2).mean(axis=1) for model in self.models])

    def score_many(self, X: Array) -> Array:
        """Gives the lowest loss of any instance for each row."""
        lowest: Array = self.losses(X).min(axis=0)
        return lowest

    def learn_many(self, X: Array) -> None:
        """Takes rows as they come: each is learned by the best instance, or waits."""
        for x in X:
            self._take(x)

    def _take(self, x: Array) -> None:
        self._seen += 1
        losses = np.array([((x - model.predict_one(x)) ** 2).mean() for model in self.models])
        best = int(losses.argmin())
        full = len(self.models) == self.most
        if full or losses[best] <= self.factor * self._typical[best]:
            self.models[best].learn_one(x, x)
        else:
            self._wait(x)
        if self._seen % EVERY == 0:
            self._join()
            self._measure()

    def _wait(self, x: Array) -> None:
        """Keeps a row aside; rows that came long ago were no pattern."""
        self._waiting.append((self._seen, x))
        while self._waiting[0][0] <= self._seen - 2 * self.enough:
            self._waiting.popleft()
        if len(self._waiting) == self.enough:
            self.models.append(self._learned(np.stack([row for _, row in self._waiting])))
            self._typical.append(np.inf)
            self._waiting.clear()
            self.added += 1

    def _join(self) -> None:
        """Lets instances be one of which one model explains all rows as well."""
        fits = [fit(model.evidence, RIDGE) for model in self.models]
        found = groups(fits, usual_tolerance(self.basis))
        for first, *others in found:
            for other in others:
                self.models[first].merge(self.models[other].evidence)
        self.joined += len(self.models) - len(found)
        self.models = [self.models[first] for first, *_ in found]

    def _measure(self) -> None:
        outputs = self.basis.outputs
        self._typical = [model.evidence.typical_loss(RIDGE) / outputs for model in self.models]

    def _learned(self, rows: Array) -> OSELM:
        model = self._blank()
        model.learn_many(rows, rows)
        return model

    def _blank(self) -> OSELM:
        return OSELM(self.basis.layer, self.basis.outputs, ridge=RIDGE, basis=self.basis)
