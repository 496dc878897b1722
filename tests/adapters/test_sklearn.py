"""The scikit-learn estimators: what scikit-learn demands, and what Elmgrove promises."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from elmgrove import Detector, HiddenLayer
from elmgrove.adapters.sklearn import ElmgroveOutlierDetector, OSELMClassifier, OSELMRegressor
from support.factories import trained
from support.laws import law_examples

PIXELS, DIGITS = load_digits(return_X_y=True)
PIXELS = PIXELS / 16.0
ZEROS, ONES = PIXELS[DIGITS == 0], PIXELS[DIGITS == 1]

# It runs only where SciPy was told so before its import: see the test that does.
NEEDS_A_FRESH_PROCESS = {"check_array_api_input"}


@pytest.mark.parametrize(
    "estimator",
    [
        ElmgroveOutlierDetector(),
        ElmgroveOutlierDetector(measure="loss"),
        ElmgroveOutlierDetector(2, activation="tanh", contamination=0.2),
        ElmgroveOutlierDetector(forgetting=0.99, random_state=None),
        OSELMClassifier(),
        OSELMClassifier(32, activation="relu", ridge=1e-3, random_state=np.int64(7)),
        OSELMClassifier(64, class_weight="balanced"),
        OSELMRegressor(),
        OSELMRegressor(32, activation="tanh", forgetting=0.99),
    ],
    ids=repr,
)
def test_scikit_learns_own_checks_pass(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail="raise")
    passed = [result["check_name"] for result in results if result["status"] == "passed"]
    others = {result["check_name"] for result in results if result["status"] != "passed"}
    assert len(passed) > 40
    assert others <= NEEDS_A_FRESH_PROCESS


def test_scikit_learns_check_of_array_namespaces_passes():
    program = """
from sklearn.utils.estimator_checks import check_array_api_input
from elmgrove.adapters.sklearn import *
for kind in (ElmgroveOutlierDetector, OSELMClassifier, OSELMRegressor):
    check_array_api_input(
        kind.__name__, kind(units=8), array_namespace="numpy", expect_only_array_outputs=False
    )
    print(kind.__name__)
"""
    done = in_a_fresh_process(program, SCIPY_ARRAY_API="1")
    assert done.stdout.split() == ["ElmgroveOutlierDetector", "OSELMClassifier", "OSELMRegressor"]


def test_without_scikit_learn_the_install_line_is_given():
    program = "import sys; sys.modules['sklearn'] = None; import elmgrove.adapters.sklearn"
    done = in_a_fresh_process(program)
    assert "MissingExtra" in done.stderr
    assert "pip install 'elmgrove[sklearn]'" in done.stderr


def in_a_fresh_process(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


# The outlier detector


def test_a_table_with_names_is_fitted_in_silence():
    """Warnings are errors here, and scikit-learn warns where names are lost on the way."""
    table = pd.DataFrame(ZEROS, columns=[f"pixel {i}" for i in range(64)])
    estimator = ElmgroveOutlierDetector().fit(table)
    np.testing.assert_array_equal(
        estimator.score_samples(table), ElmgroveOutlierDetector().fit(ZEROS).score_samples(ZEROS)
    )
    assert estimator.offset_ == ElmgroveOutlierDetector().fit(ZEROS).offset_
    assert list(estimator.partial_fit(table).feature_names_in_) == list(table.columns)


@pytest.mark.parametrize(("score", "units"), [("distance", 64), ("loss", 16)])
def test_scores_are_minus_those_of_the_plain_detector_with_the_same_seed(score, units):
    plain = trained(Detector(HiddenLayer(inputs=64, units=units, seed=7), score=score), ZEROS)
    estimator = ElmgroveOutlierDetector(random_state=7, measure=score).fit(ZEROS)
    np.testing.assert_array_equal(estimator.score_samples(ONES), -plain.score_many(ONES))


@pytest.mark.parametrize("contamination", [0.01, 0.1, 0.5])
def test_contamination_is_the_share_of_the_learned_rows_called_outliers(contamination):
    rows = np.vstack([ZEROS, ONES])[:300]
    whole, chunked = (ElmgroveOutlierDetector(contamination=contamination) for _ in range(2))
    whole.fit(rows)
    for chunk in np.split(rows, 10):
        chunked.partial_fit(chunk)
    for estimator in (whole, chunked):
        assert np.sum(estimator.predict(rows) == -1) == round(contamination * len(rows))


@pytest.mark.parametrize(("score", "times"), [("loss", 20), ("distance", 1.5)])
def test_after_partial_fit_the_latest_rows_decide_where_outliers_begin(score, times):
    rng = np.random.default_rng(0)
    calm, rough = (rng.normal(0, size, (600, 8)) for size in (0.1, 1.0))
    estimator = ElmgroveOutlierDetector(contamination=0.1, measure=score).fit(calm)
    calm_limit = estimator.offset_
    estimator.partial_fit(rough)
    assert estimator.offset_ < times * calm_limit
    assert np.mean(estimator.predict(rough[-512:]) == -1) == pytest.approx(0.1, abs=0.002)


def test_rows_that_can_not_be_learned_leave_the_estimator_as_it_was():
    estimator = ElmgroveOutlierDetector().fit(ZEROS)
    before = estimator.score_samples(ONES), estimator.offset_
    for bad in (ONES * 1e80, ONES[:, 1:], np.where(ONES > 0.5, np.nan, ONES)):
        with pytest.raises(ValueError, match=r"too large|features|NaN"):
            estimator.partial_fit(bad)
    np.testing.assert_array_equal(estimator.score_samples(ONES), before[0])
    assert estimator.offset_ == before[1]


# The classifier and the regressor


def test_labels_can_be_text_and_a_single_class_is_no_problem():
    names = np.array(["zero", "one"])[DIGITS[:360] % 2]
    model = OSELMClassifier(32).fit(PIXELS[:360], names)
    assert model.classes_.tolist() == ["one", "zero"]
    assert model.score(PIXELS[:360], names) > 0.9
    alone = OSELMClassifier(32).fit(PIXELS[:9], ["only"] * 9)
    assert set(alone.predict(PIXELS)) == {"only"}


def test_the_first_partial_fit_must_name_the_classes_and_later_ones_not_others():
    model = OSELMClassifier(32)
    with pytest.raises(ValueError, match="needs classes"):
        model.partial_fit(PIXELS[:9], DIGITS[:9])
    with pytest.raises(NotFittedError):
        model.predict(PIXELS)
    model.partial_fit(PIXELS[:9], DIGITS[:9], classes=range(10))
    model.partial_fit(PIXELS[:9], DIGITS[:9], classes=range(10))
    with pytest.raises(ValueError, match="named the classes"):
        model.partial_fit(PIXELS[:9], DIGITS[:9], classes=range(11))


def test_the_regressor_takes_one_target_or_several_and_gives_them_back_in_that_shape():
    targets = np.c_[PIXELS.sum(axis=1), PIXELS[:, :32].sum(axis=1)]
    several = OSELMRegressor().fit(PIXELS[:1200], targets[:1200])
    one = OSELMRegressor().fit(PIXELS[:1200], targets[:1200, 1])
    assert several.predict(PIXELS).shape == targets.shape
    assert one.predict(PIXELS).shape == (len(PIXELS),)
    np.testing.assert_allclose(several.predict(PIXELS)[:, 1], one.predict(PIXELS), atol=1e-9)
    assert several.score(PIXELS[1200:], targets[1200:]) > 0.95


# All of them


@settings(max_examples=law_examples(20), deadline=None)
@given(
    cuts=st.lists(st.integers(1, 119), max_size=5, unique=True),
    forgetting=st.sampled_from([1.0, 0.99]),
)
def test_learning_in_any_chunks_gives_what_fit_on_all_rows_would(cuts, forgetting):
    X, y, unseen = PIXELS[:120], DIGITS[:120], PIXELS[120:200]
    parts = list(zip(np.split(X, sorted(cuts)), np.split(y, sorted(cuts)), strict=True))
    outlier, classifier, regressor = (
        kind(units=8, forgetting=forgetting)
        for kind in (ElmgroveOutlierDetector, OSELMClassifier, OSELMRegressor)
    )
    for rows, labels in parts:
        outlier.partial_fit(rows)
        classifier.partial_fit(rows, labels, classes=np.unique(y))
        regressor.partial_fit(rows, labels)
    same = {"rtol": 1e-9, "atol": 1e-9}
    for got, whole, ask in (
        (outlier, clone(outlier).fit(X), "score_samples"),
        (classifier, clone(classifier).fit(X, y), "decision_function"),
        (regressor, clone(regressor).fit(X, y), "predict"),
    ):
        np.testing.assert_allclose(getattr(got, ask)(unseen), getattr(whole, ask)(unseen), **same)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_goes_on_by_itself_with_all_that_was_learned_and_received(copied):
    original = ElmgroveOutlierDetector().fit(ZEROS)
    original.detector_.merge(ElmgroveOutlierDetector().fit(ONES).detector_.evidence)
    twin = copied(original)
    before = original.score_samples(PIXELS)
    np.testing.assert_array_equal(twin.score_samples(PIXELS), before)
    twin.partial_fit(PIXELS)
    np.testing.assert_array_equal(original.score_samples(PIXELS), before)
    original.partial_fit(PIXELS)
    np.testing.assert_allclose(twin.score_samples(PIXELS), original.score_samples(PIXELS))
    assert twin.offset_ == pytest.approx(original.offset_)
