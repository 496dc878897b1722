"""The battery passes what is sound, and each of its laws catches what it is meant to catch."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from elmgrove import Detector, HiddenLayer, Scaling, checks
from elmgrove.adapters.river import ElmgroveDetector
from elmgrove.adapters.sklearn import ElmgroveOutlierDetector

LAWS = 17


def native(units=4, activation="identity", weights="uniform", seed=0, inputs=8, **settings):
    layer = HiddenLayer(inputs, units, activation, weights, seed)
    return lambda: Detector(layer, **settings)


SOUND = {
    "identity": native(),
    "loss": native(score="loss"),
    "all units": native(units=8),
    "loss forgetting": native(score="loss", forgetting=0.98),
    "sigmoid": native(activation="sigmoid"),
    "tanh": native(activation="tanh"),
    "relu": native(activation="relu", units=6),
    "binary": native(weights="binary", seed=123456789),
    "forgetting": native(forgetting=0.98),
    "min-max": native(scaling=Scaling.minmax([-1.0] * 8, [2.0] * 8)),
    "standard": native(scaling=Scaling.standard([0.5] * 8, [0.4] * 8)),
    "named": native(features=[f"x{i}" for i in range(8)]),
    "scikit-learn": ElmgroveOutlierDetector,
    "scikit-learn forgetting": lambda: ElmgroveOutlierDetector(units=4, forgetting=0.98),
    "scikit-learn sigmoid": lambda: ElmgroveOutlierDetector(activation="sigmoid"),
    "scikit-learn loss": lambda: ElmgroveOutlierDetector(measure="loss"),
    "River": ElmgroveDetector,
    "River loss": lambda: ElmgroveDetector(score="loss"),
    "River forgetting": lambda: ElmgroveDetector(units=4, forgetting=0.98),
    "River given features": lambda: ElmgroveDetector(features=[f"x{i}" for i in range(8)]),
}


@pytest.mark.parametrize("make", SOUND.values(), ids=SOUND)
def test_sound_detectors_keep_all_laws(make):
    assert len(checks.run(make)) == LAWS


@pytest.mark.parametrize("inputs", [4, 20])
def test_the_number_of_inputs_is_free(inputs):
    assert len(checks.run(native(inputs=inputs, units=3), inputs=inputs)) == LAWS
    assert len(checks.run(lambda: ElmgroveDetector(units=3), inputs=inputs)) == LAWS


def test_neither_scikit_learn_nor_river_is_needed():
    program = """
import sys
sys.modules["sklearn"] = sys.modules["river"] = None
from elmgrove import Detector, HiddenLayer, checks
print(len(checks.run(lambda: Detector(HiddenLayer(inputs=8, units=4)))))
"""
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (str(LAWS), "")


class Flawed(Detector):
    """A sound detector, for others to spoil in one point: whatever they do to many rows at
    once they do to a single one."""

    def __init__(self, seed=0):
        super().__init__(HiddenLayer(8, 4, seed=seed), score="loss")

    def score_one(self, row):
        return float(self.score_many([row])[0])


class Negative(Flawed):
    def score_many(self, rows):
        return -super().score_many(rows)


class Constant(Flawed):
    def score_many(self, rows):
        return np.ones(len(super().score_many(rows)))


class LearnsWhatItScores(Flawed):
    def score_many(self, rows):
        scores = super().score_many(rows)
        self.learn_many(rows)
        return scores


class DependsOnTheBatch(Flawed):
    def score_many(self, rows):
        scores = super().score_many(rows)
        return scores / scores.max()


class LearnsNothing(Flawed):
    def learn_many(self, rows):
        self.score_many(rows)

    def learn_one(self, row):
        self.learn_many([row])


class AfraidOfTheFamiliar(Flawed):
    def score_many(self, rows):
        return super().score_many(rows) + self.learned


class DrownedInNoise(Flawed):
    def score_many(self, rows):
        return super().score_many(rows) + 1e3 * np.modf(np.abs(rows)[:, 0] * 1e3)[0]


class KnowsTheLastChunkOnly(Flawed):
    def learn_many(self, rows):
        Flawed.__init__(self)
        super().learn_many(rows)


class CountsSingleRowsTwice(Flawed):
    def learn_one(self, row):
        super().learn_one(row)
        super().learn_one(row)


class NoTwoAlike(Flawed):
    seeds = itertools.count()

    def __init__(self):
        super().__init__(next(self.seeds))


class DividesByTheSpread(Flawed):
    def score_many(self, rows):
        return super().score_many(rows) / np.std(self.gate.recent.rows, axis=0).min()


class Exponential(Flawed):
    def score_many(self, rows):
        return np.expm1(super().score_many(rows))


class NeedsTenRows(Flawed):
    def score_many(self, rows):
        if self.learned < 10:
            raise RuntimeError("not fitted")
        return super().score_many(rows)


class Mending(Flawed):
    """Makes the best of bad rows instead of refusing them."""

    def mend(self, row):
        raise NotImplementedError

    def learn_one(self, row):
        super().learn_one(self.mend(row))

    def learn_many(self, rows):
        super().learn_many([self.mend(row) for row in rows])

    def score_many(self, rows):
        return super().score_many([self.mend(row) for row in rows])


class SwallowsNaN(Mending):
    def mend(self, row):
        return [0.0 if value != value else value for value in row]


class SwallowsInfinity(Mending):
    def mend(self, row):
        return [np.sign(value) if value in (np.inf, -np.inf) else value for value in row]


class SwallowsText(Mending):
    def mend(self, row):
        return [0.0 if isinstance(value, str) else value for value in row]


class SwallowsColumns(Mending):
    def mend(self, row):
        return [*row, 0.0][:8]


class RefusesButLearnsTheRest(Flawed):
    def learn_many(self, rows):
        for row in list(rows)[1:]:
            self.learn_one(row)
        self.learn_one(rows[0])


FLAWS = {
    Negative: "scores_are_finite_and_not_negative",
    Constant: "scores_vary_over_rows",
    LearnsWhatItScores: "scoring_never_learns",
    DependsOnTheBatch: "a_row_alone_scores_as_in_a_batch",
    LearnsNothing: "learning_changes_scores",
    AfraidOfTheFamiliar: "learning_a_pattern_lowers_its_scores",
    DrownedInNoise: "anomalous_rows_score_higher",
    KnowsTheLastChunkOnly: "learning_in_chunks_equals_at_once",
    CountsSingleRowsTwice: "learning_one_by_one_equals_at_once",
    NoTwoAlike: "two_made_alike_agree_exactly",
    DividesByTheSpread: "constant_rows_stay_finite",
    Exponential: "tiny_and_large_values_stay_finite",
    NeedsTenRows: "works_from_the_very_first_row",
    SwallowsNaN: "not_a_number_is_refused",
    SwallowsInfinity: "infinity_is_refused",
    SwallowsText: "text_is_refused",
    SwallowsColumns: "a_wrong_number_of_columns_is_refused",
    RefusesButLearnsTheRest: "not_a_number_is_refused",
}


def test_without_a_flaw_nothing_is_found():
    assert len(checks.run(Flawed)) == LAWS


@pytest.mark.parametrize("make", FLAWS, ids=lambda make: make.__name__)
def test_each_flaw_is_found_by_the_law_against_it(make):
    with np.errstate(all="ignore"), pytest.raises(AssertionError, match=f"^{FLAWS[make]}: "):
        checks.run(make)


def test_each_law_finds_some_flaw():
    assert set(FLAWS.values()) == {law.__name__ for law in checks.LAWS}
