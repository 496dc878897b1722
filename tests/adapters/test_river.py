"""The River detector: what River demands, and what Elmgrove promises."""

import copy
import functools
import pickle
import subprocess
import sys

import pytest
from river import checks, preprocessing
from sklearn.datasets import load_digits

from elmgrove import BadInput, Detector, HiddenLayer
from elmgrove.adapters.river import ElmgroveDetector

PIXELS, DIGITS = load_digits(return_X_y=True)

# River hands its checks a data set of 150 MB from the network; these are zeros with a few other
# digits in between, in the same form, over and over where it wants a long stream.
STREAM = [
    ({f"pixel {i}": float(value) for i, value in enumerate(row)}, bool(digit))
    for at, (row, digit) in enumerate(zip(PIXELS / 16.0, DIGITS, strict=True))
    if digit == 0 or at % 60 == 7
]
FIXED_FEATURES = {
    "check_emerging_features",
    "check_disappearing_features",
    "check_radically_disappearing_features",
}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (ElmgroveDetector(), 23),
        (ElmgroveDetector(8, "tanh", "binary", forgetting=0.99, seed=7), 23),
        (ElmgroveDetector(score="loss"), 23),
        (ElmgroveDetector(window=2), 23),
        (ElmgroveDetector(features=tuple(STREAM[0][0])), 23),
        (preprocessing.MinMaxScaler() | ElmgroveDetector(), 24),
    ],
    ids=["default", "tanh", "loss", "window", "features given", "pipeline"],
)
def test_rivers_own_checks_pass_but_for_features_that_come_and_go(model, expected):
    assert model._unit_test_skips() == FIXED_FEATURES
    ran = 0
    for check in checks.yield_checks(model):
        if check.__name__ in FIXED_FEATURES:
            continue
        if isinstance(check, functools.partial):
            rows = STREAM * 10 if check.__name__ == "check_bounded_memory_growth" else STREAM
            check.func(model.clone(), dataset=rows)
        else:
            check(model.clone())
        ran += 1
    assert ran == expected


def test_without_river_the_install_line_is_given():
    program = "import sys; sys.modules['river'] = None; import elmgrove.adapters.river"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "MissingExtra" in done.stderr
    assert "pip install 'elmgrove[river]'" in done.stderr


@pytest.mark.parametrize(
    ("settings", "units"),
    [({}, 64), ({"score": "loss"}, 16), ({"window": 2}, 64), ({"score": "loss", "window": 2}, 32)],
)
def test_scores_are_those_of_the_plain_detector_with_the_same_seed_and_names(settings, units):
    names = sorted(STREAM[0][0])
    plain = Detector(HiddenLayer(inputs=64, units=units, seed=7), features=names, **settings)
    model = ElmgroveDetector(seed=7, **settings)
    for x, _ in STREAM:
        values = [x[name] for name in names]
        if model.detector is not None:
            assert model.score_one(x) == plain.score_one(values)
        model.learn_one(x)
        plain.learn_one(values)
    assert model.detector.basis.fingerprint == plain.basis.fingerprint


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1.0, "b": 2.0}, "'c' is missing"),
        ({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, "'d' is not one of"),
        ({"a": 1.0, "b": float("nan"), "c": 3.0}, "'b'.*not a finite number"),
        ({"a": 1.0, "b": None, "c": 3.0}, "'b'.*not a finite number"),
        ({"a": 1.0, "b": "hot", "c": 3.0}, "'b'.*'hot' is not a number"),
    ],
)
def test_a_bad_row_is_refused_by_the_name_of_its_feature_and_changes_nothing(row, message):
    good = [{"a": float(i), "b": 2.0 * i, "c": 3.0 - i} for i in range(5)]
    model = ElmgroveDetector()
    for x in good:
        model.learn_one(x)
    before = [model.score_one(x) for x in good]
    for attempt in (model.learn_one, model.score_one):
        with pytest.raises(BadInput, match=message):
            attempt(row)
    assert [model.score_one(x) for x in good] == before


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_goes_on_by_itself_and_a_clone_starts_empty(copied):
    original = ElmgroveDetector(seed=3)
    for x, _ in STREAM[:50]:
        original.learn_one(x)
    x, y = STREAM[50][0], STREAM[51][0]
    before, twin = original.score_one(y), copied(original)
    twin.learn_one(x)
    assert original.score_one(y) == before
    original.learn_one(x)
    assert twin.score_one(y) == pytest.approx(original.score_one(y), rel=1e-9)
    assert original.clone().detector is None
