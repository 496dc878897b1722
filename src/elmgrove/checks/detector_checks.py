"""The laws: what every detector must do when it scores, learns and refuses rows."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Driver(NamedTuple):
    """A detector's calls: learn and score, a row or many. Higher scores are more anomalous."""

    learn_one: Callable[[Any], object]
    learn_many: Callable[[Any], object]
    score_one: Callable[[Any], float]
    score_many: Callable[[Any], Array]


def drive(detector: Any) -> Driver:
    if hasattr(detector, "score_samples"):
        return _scikit_learn(detector)
    if hasattr(detector, "score_many"):
        return Driver(
            detector.learn_one, detector.learn_many, detector.score_one, detector.score_many
        )
    return _river(detector)


def _scikit_learn(detector: Any) -> Driver:
    """scikit-learn always takes many rows, and scores normal ones high."""

    def score_many(rows: Any) -> Array:
        return -np.asarray(detector.score_samples(rows))

    return Driver(
        learn_one=lambda row: detector.partial_fit([row]),
        learn_many=detector.partial_fit,
        score_one=lambda row: float(score_many([row])[0]),
        score_many=score_many,
    )


def _river(detector: Any) -> Driver:
    """River always takes one row, as a dict."""

    def learn_many(rows: Any) -> None:
        for row in rows:
            detector.learn_one(_named(row))

    return Driver(
        learn_one=lambda row: detector.learn_one(_named(row)),
        learn_many=learn_many,
        score_one=lambda row: detector.score_one(_named(row)),
        score_many=lambda rows: np.array([detector.score_one(_named(row)) for row in rows]),
    )


def _named(row: Sequence[Any]) -> dict[str, Any]:
    return {f"x{column}": value for column, value in enumerate(row)}


class Trial:
    """Makes detectors and rows to try laws on.

    Normal rows are made of two hidden numbers each and a little noise; anomalous rows have the same
    mean and spread in each column, but nothing in common.
    """

    def __init__(self, make: Callable[[], Any], inputs: int, tolerance: float) -> None:
        self._make = make
        self.inputs = inputs
        self.tolerance = tolerance

    def fresh(self) -> Driver:
        return drive(self._make())

    def taught(self) -> Driver:
        driver = self.fresh()
        driver.learn_many(self.normal)
        return driver

    def pattern(self, seed: int, rows: int) -> Array:
        """Rows of one pattern: each seed is another pattern."""
        rng = np.random.default_rng(seed)
        mixing = rng.uniform(-0.5, 0.5, (2, self.inputs))
        mixing[rng.integers(2, size=self.inputs), np.arange(self.inputs)] += 1.0
        hidden = rng.uniform(0, 1, (rows, 2))
        noise = rng.normal(0, 0.01, (rows, self.inputs))
        made: Array = hidden @ mixing + noise
        return made

    @cached_property
    def normal(self) -> Array:
        return self.pattern(1, 200)[:140]

    @cached_property
    def unseen(self) -> Array:
        """Rows of the pattern that ``normal`` has, not to be learned."""
        return self.pattern(1, 200)[140:]

    @cached_property
    def anomalous(self) -> Array:
        """Unseen rows with each column shuffled by itself."""
        return np.random.default_rng(2).permuted(self.unseen, axis=0)

    @cached_property
    def other(self) -> Array:
        return self.pattern(3, 120)

    def differ(self, a: Any, b: Any) -> bool:
        """Whether two scores, or lists of scores, differ by more than rounding."""
        return bool(np.abs(np.subtract(a, b)).max() > self.tolerance * np.abs(a).max())


Law = Callable[[Trial], None]


def require(holds: Any, otherwise: str) -> None:
    # Under ``python -O`` as well.
    if not holds:
        raise AssertionError(otherwise)


def scores_are_finite_and_not_negative(trial: Trial) -> None:
    for rows in (trial.unseen, trial.anomalous):
        scores = np.asarray(trial.taught().score_many(rows))
        require(scores.shape == (len(rows),), f"{len(rows)} rows gave scores {scores.shape}")
        require(np.isfinite(scores).all(), "a score is not finite")
        require(scores.min() >= 0, f"a score is negative: {scores.min()}")


def scores_vary_over_rows(trial: Trial) -> None:
    scores = trial.taught().score_many(trial.unseen)
    require(len(np.unique(scores)) > len(scores) // 2, "most scores are the same")


def scoring_never_learns(trial: Trial) -> None:
    driver = trial.taught()
    before = driver.score_many(trial.unseen)
    for _ in range(3):
        driver.score_many(trial.anomalous)
        driver.score_one(trial.anomalous[0])
    require(not trial.differ(before, driver.score_many(trial.unseen)), "scoring changed scores")


def a_row_alone_scores_as_in_a_batch(trial: Trial) -> None:
    driver = trial.taught()
    rows = np.vstack([trial.unseen, trial.anomalous])
    together = driver.score_many(rows)
    alone = [driver.score_one(row) for row in rows]
    require(not trial.differ(together, alone), "a row has another score alone than in a batch")
    halves = [driver.score_many(half) for half in np.split(rows, 2)]
    require(not trial.differ(together, np.concatenate(halves)), "half a batch scores otherwise")


def learning_changes_scores(trial: Trial) -> None:
    driver = trial.taught()
    before = driver.score_many(trial.unseen)
    driver.learn_many(trial.other)
    require(trial.differ(before, driver.score_many(trial.unseen)), "the scores are as before")


def learning_a_pattern_lowers_its_scores(trial: Trial) -> None:
    driver = trial.taught()
    seen, unseen = np.split(trial.other, 2)
    before = driver.score_many(unseen).mean()
    driver.learn_many(seen)
    after = driver.score_many(unseen).mean()
    require(after < before, f"the mean score went from {before:g} to {after:g}")


def anomalous_rows_score_higher(trial: Trial) -> None:
    driver = trial.taught()
    normal, anomalous = driver.score_many(trial.unseen), driver.score_many(trial.anomalous)
    above = np.subtract.outer(anomalous, normal)
    auc = np.mean(above > 0) + 0.5 * np.mean(above == 0)
    require(auc > 0.9, f"the ROC-AUC is {auc:.3f}")


def two_made_alike_agree_exactly(trial: Trial) -> None:
    first, second = (trial.taught().score_many(trial.unseen) for _ in range(2))
    require(np.array_equal(first, second), "two detectors made alike do not agree")


def learning_in_chunks_equals_at_once(trial: Trial) -> None:
    chunked = trial.fresh()
    for chunk in np.split(trial.normal, [1, 4, 50, 51, 120]):
        chunked.learn_many(chunk)
    _require_same(trial, chunked.score_many(trial.unseen))


def learning_one_by_one_equals_at_once(trial: Trial) -> None:
    single = trial.fresh()
    for row in trial.normal:
        single.learn_one(row)
    _require_same(trial, single.score_many(trial.unseen))


def constant_rows_stay_finite(trial: Trial) -> None:
    column = trial.normal.copy()
    column[:, 0] = 0.5
    for rows in (np.full_like(column, 0.5), np.zeros_like(column), column):
        driver = trial.fresh()
        driver.learn_many(rows)
        for row in rows[:20]:
            driver.learn_one(row)
        _require_finite(driver.score_many(rows))
        _require_finite(driver.score_many(trial.anomalous))


def tiny_and_large_values_stay_finite(trial: Trial) -> None:
    for factor in (1e-12, 1e6):
        driver = trial.fresh()
        driver.learn_many(trial.normal * factor)
        _require_finite(driver.score_many(trial.unseen * factor))
        driver.learn_many(trial.normal)
        _require_finite(driver.score_many(trial.unseen))


def works_from_the_very_first_row(trial: Trial) -> None:
    driver = trial.fresh()
    for row in trial.normal[:3]:
        driver.learn_one(row)
        _require_finite(driver.score_many(trial.unseen))


def not_a_number_is_refused(trial: Trial) -> None:
    _require_refused(trial, _with(trial, float("nan")))


def infinity_is_refused(trial: Trial) -> None:
    _require_refused(trial, _with(trial, float("inf")))
    _require_refused(trial, _with(trial, float("-inf")))


def text_is_refused(trial: Trial) -> None:
    _require_refused(trial, _with(trial, "broken"))


def a_wrong_number_of_columns_is_refused(trial: Trial) -> None:
    good = trial.unseen.tolist()
    _require_refused(trial, [row[:-1] for row in good])
    _require_refused(trial, [[*row, 0.5] for row in good])


def _require_same(trial: Trial, scores: object) -> None:
    at_once = trial.taught().score_many(trial.unseen)
    require(not trial.differ(at_once, scores), "other scores than after learning all rows at once")


def _require_finite(scores: object) -> None:
    require(np.isfinite(np.asarray(scores)).all(), "a score is not finite")


def _with(trial: Trial, value: Any) -> list[list[Any]]:
    """Rows of which the first has this value in its third column."""
    rows: list[list[Any]] = trial.unseen.tolist()
    rows[0][2] = value
    return rows


def _require_refused(trial: Trial, rows: list[list[Any]]) -> None:
    """The first row is bad, so that a detector that takes one at a time learns none of them."""
    driver = trial.taught()
    before = driver.score_many(trial.unseen)
    attempts = (
        (driver.learn_one, rows[0]),
        (driver.learn_many, rows),
        (driver.score_one, rows[0]),
        (driver.score_many, rows),
    )
    for attempt, given in attempts:
        try:
            attempt(given)
        except (ValueError, TypeError):
            pass
        else:
            raise AssertionError(f"it was accepted: {rows[0]}")
        after = driver.score_many(trial.unseen)
        require(not trial.differ(before, after), "it was refused, but the scores changed")


#: The plainest first, so that a fault that breaks several is reported by the plainest.
LAWS: tuple[Law, ...] = (
    scores_are_finite_and_not_negative,
    scores_vary_over_rows,
    scoring_never_learns,
    a_row_alone_scores_as_in_a_batch,
    learning_changes_scores,
    learning_a_pattern_lowers_its_scores,
    anomalous_rows_score_higher,
    two_made_alike_agree_exactly,
    learning_in_chunks_equals_at_once,
    learning_one_by_one_equals_at_once,
    constant_rows_stay_finite,
    tiny_and_large_values_stay_finite,
    works_from_the_very_first_row,
    not_a_number_is_refused,
    infinity_is_refused,
    text_is_refused,
    a_wrong_number_of_columns_is_refused,
)
