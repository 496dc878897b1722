"""The laws of learning."""

import numpy as np

from elmgrove.checks.trial import Law, Trial, require


def learning_changes_scores(trial: Trial) -> None:
    """Whoever learned more rows scores differently."""
    driver = trial.taught()
    before = driver.score_many(trial.unseen)
    driver.learn_many(trial.other)
    require(trial.differ(before, driver.score_many(trial.unseen)), "the scores are as before")


def learning_a_pattern_lowers_its_scores(trial: Trial) -> None:
    """Rows of a kind are less strange once others of that kind were learned."""
    driver = trial.taught()
    seen, unseen = np.split(trial.other, 2)
    before = driver.score_many(unseen).mean()
    driver.learn_many(seen)
    after = driver.score_many(unseen).mean()
    require(after < before, f"the mean score went from {before:g} to {after:g}")


def strange_rows_score_higher(trial: Trial) -> None:
    """A strange row scores higher than a normal one nine times in ten (ROC-AUC above 0.9)."""
    driver = trial.taught()
    normal, strange = driver.score_many(trial.unseen), driver.score_many(trial.strange)
    above = np.subtract.outer(strange, normal)
    auc = np.mean(above > 0) + 0.5 * np.mean(above == 0)
    require(auc > 0.9, f"the ROC-AUC is {auc:.3f}")


def two_made_alike_agree_exactly(trial: Trial) -> None:
    """Two detectors made alike that learned the same rows give the same scores to the last bit."""
    first, second = (trial.taught().score_many(trial.unseen) for _ in range(2))
    require(np.array_equal(first, second), "two detectors made alike do not agree")


def learning_in_chunks_equals_at_once(trial: Trial) -> None:
    """It does not matter in which chunks rows are learned."""
    chunked = trial.fresh()
    for chunk in np.split(trial.normal, [1, 4, 50, 51, 120]):
        chunked.learn_many(chunk)
    _require_same(trial, chunked.score_many(trial.unseen))


def learning_one_by_one_equals_at_once(trial: Trial) -> None:
    """It does not matter whether rows are learned one at a time or all at once."""
    single = trial.fresh()
    for row in trial.normal:
        single.learn_one(row)
    _require_same(trial, single.score_many(trial.unseen))


def constant_rows_stay_finite(trial: Trial) -> None:
    """Rows that are all the same, or all 0, break nothing, nor does a constant column."""
    column = trial.normal.copy()
    column[:, 0] = 0.5
    for rows in (np.full_like(column, 0.5), np.zeros_like(column), column):
        driver = trial.fresh()
        driver.learn_many(rows)
        for row in rows[:20]:
            driver.learn_one(row)
        _require_finite(driver.score_many(rows))
        _require_finite(driver.score_many(trial.strange))


def tiny_and_large_values_stay_finite(trial: Trial) -> None:
    """Rows in units a million times too large, or far too small, break nothing."""
    for factor in (1e-12, 1e6):
        driver = trial.fresh()
        driver.learn_many(trial.normal * factor)
        _require_finite(driver.score_many(trial.unseen * factor))
        driver.learn_many(trial.normal)
        _require_finite(driver.score_many(trial.unseen))


def works_from_the_very_first_row(trial: Trial) -> None:
    """After a single row there are finite scores, and more rows can follow."""
    driver = trial.fresh()
    for row in trial.normal[:3]:
        driver.learn_one(row)
        _require_finite(driver.score_many(trial.unseen))


def _require_same(trial: Trial, scores: object) -> None:
    at_once = trial.taught().score_many(trial.unseen)
    require(not trial.differ(at_once, scores), "other scores than after learning all rows at once")


def _require_finite(scores: object) -> None:
    require(np.isfinite(np.asarray(scores)).all(), "a score is not finite")


LAWS: tuple[Law, ...] = (
    learning_changes_scores,
    learning_a_pattern_lowers_its_scores,
    strange_rows_score_higher,
    two_made_alike_agree_exactly,
    learning_in_chunks_equals_at_once,
    learning_one_by_one_equals_at_once,
    constant_rows_stay_finite,
    tiny_and_large_values_stay_finite,
    works_from_the_very_first_row,
)
