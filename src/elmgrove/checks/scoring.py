"""The laws of scoring."""

import numpy as np

from elmgrove.checks.trial import Law, Trial, require


def scores_are_finite_and_not_negative(trial: Trial) -> None:
    """A score is a finite number of at least 0, one for each row."""
    for rows in (trial.unseen, trial.strange):
        scores = np.asarray(trial.taught().score_many(rows))
        require(scores.shape == (len(rows),), f"{len(rows)} rows gave scores {scores.shape}")
        require(np.isfinite(scores).all(), "a score is not finite")
        require(scores.min() >= 0, f"a score is negative: {scores.min()}")


def scores_vary_over_rows(trial: Trial) -> None:
    """Rows that differ have scores that differ."""
    scores = trial.taught().score_many(trial.unseen)
    require(len(np.unique(scores)) > len(scores) // 2, "most scores are the same")


def scoring_never_learns(trial: Trial) -> None:
    """A score stays the same however often this row or others are scored."""
    driver = trial.taught()
    before = driver.score_many(trial.unseen)
    for _ in range(3):
        driver.score_many(trial.strange)
        driver.score_one(trial.strange[0])
    require(not trial.differ(before, driver.score_many(trial.unseen)), "scoring changed scores")


def a_row_alone_scores_as_in_a_batch(trial: Trial) -> None:
    """The score of a row does not depend on the rows scored with it."""
    driver = trial.taught()
    rows = np.vstack([trial.unseen, trial.strange])
    together = driver.score_many(rows)
    alone = [driver.score_one(row) for row in rows]
    require(not trial.differ(together, alone), "a row has another score alone than in a batch")
    halves = [driver.score_many(half) for half in np.split(rows, 2)]
    require(not trial.differ(together, np.concatenate(halves)), "half a batch scores otherwise")


LAWS: tuple[Law, ...] = (
    scores_are_finite_and_not_negative,
    scores_vary_over_rows,
    scoring_never_learns,
    a_row_alone_scores_as_in_a_batch,
)
