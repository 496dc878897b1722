"""The laws of refusing what is not a row of numbers."""

from typing import Any

from elmgrove.checks.trial import Law, Trial, require


def not_a_number_is_refused(trial: Trial) -> None:
    """NaN is an error, learned or scored, and leaves the detector as it was."""
    _require_refused(trial, _with(trial, float("nan")))


def infinity_is_refused(trial: Trial) -> None:
    """Infinity of either sign is an error, and leaves the detector as it was."""
    _require_refused(trial, _with(trial, float("inf")))
    _require_refused(trial, _with(trial, float("-inf")))


def text_is_refused(trial: Trial) -> None:
    """Text is an error, and leaves the detector as it was."""
    _require_refused(trial, _with(trial, "broken"))


def a_wrong_number_of_columns_is_refused(trial: Trial) -> None:
    """A column too few or too many is an error, and leaves the detector as it was."""
    good = trial.unseen.tolist()
    _require_refused(trial, [row[:-1] for row in good])
    _require_refused(trial, [[*row, 0.5] for row in good])


def _with(trial: Trial, value: Any) -> list[list[Any]]:
    """Rows of which the first has this value in its third column."""
    rows: list[list[Any]] = trial.unseen.tolist()
    rows[0][2] = value
    return rows


def _require_refused(trial: Trial, rows: list[list[Any]]) -> None:
    """The first row is bad, so that whoever can only take one at a time learns none of them."""
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


LAWS: tuple[Law, ...] = (
    not_a_number_is_refused,
    infinity_is_refused,
    text_is_refused,
    a_wrong_number_of_columns_is_refused,
)
