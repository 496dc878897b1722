"""The user states a false-alarm rate, and that is the rate: over long streams, through bursts of
anomalies, merges and bulk learning. Seeds are fixed; the bounds leave room for chance."""

import numpy as np
import pytest

from elmgrove import Detector, FalseAlarmRate, HiddenLayer

INPUTS = 12
LAYER = HiddenLayer(INPUTS, 4, seed=1)
RATES = pytest.mark.parametrize("rate", [0.01, 0.05])


class Machine:
    """A stationary source of rows that three hidden numbers explain in part."""

    def __init__(self, seed: int, inputs: int = INPUTS) -> None:
        self.rng = np.random.default_rng(seed)
        self._mixing = self.rng.normal(size=(3, inputs))

    def rows(self, count: int) -> np.ndarray:
        noise = 0.3 * self.rng.normal(size=(count, self._mixing.shape[1]))
        return self.rng.normal(size=(count, 3)) @ self._mixing + noise

    def gross(self, count: int) -> np.ndarray:
        return 20.0 * self.rng.normal(size=(count, self._mixing.shape[1]))


def made(rate: float) -> Detector:
    return Detector(LAYER, threshold=FalseAlarmRate(rate))


def flags(detector: Detector, rows: np.ndarray) -> np.ndarray:
    return np.array([detector.observe(row).anomalous for row in rows])


def require_rate(flagged: np.ndarray, rate: float, window: int = 5000) -> None:
    """Between 0.4 and 2.5 times the rate in every window."""
    shares = flagged.reshape(-1, window).mean(axis=1) / rate
    assert shares.min() > 0.4, shares
    assert shares.max() < 2.5, shares


# Streams


@RATES
def test_the_rate_holds_in_every_window_of_a_long_stream(rate: float) -> None:
    require_rate(flags(made(rate), Machine(2).rows(20000)), rate)


@RATES
def test_the_rate_holds_where_now_and_then_a_row_is_much_larger(rate: float) -> None:
    """Scores with a heavy tail: the amplitude of rows has Student's t distribution."""
    machine = Machine(0)
    rows = machine.rows(15000) * machine.rng.standard_t(4, size=(15000, 1))
    require_rate(flags(made(rate), rows), rate)


@RATES
def test_the_rate_holds_while_others_are_heard_again_and_again(rate: float) -> None:
    """Each merge scores the ring again; what was refused before must not be forgotten by that."""
    other, detector = made(rate), made(rate)
    other.learn_many(Machine(9).rows(1000))
    contributions = [[], [other.evidence]]
    flagged = []
    for index, row in enumerate(Machine(0).rows(10000)):
        if index % 500 == 0:
            detector.rest_on(contributions[index // 500 % 2])
        flagged.append(detector.observe(row).anomalous)
    require_rate(np.array(flagged), rate)


@RATES
def test_the_rate_holds_where_a_user_teaches_between_rows(rate: float) -> None:
    machine, detector = Machine(0), made(rate)
    flagged = []
    for index, row in enumerate(machine.rows(10000)):
        if index % 100 == 0:
            detector.learn_one(machine.rows(1)[0])
        flagged.append(detector.observe(row).anomalous)
    require_rate(np.array(flagged), rate)


# Bursts


@RATES
def test_a_burst_of_gross_anomalies_is_flagged_entirely_and_hardly_moves_the_threshold(
    rate: float,
) -> None:
    machine, detector = Machine(0), made(rate)
    flags(detector, machine.rows(5000))
    before, evidence = detector.threshold, detector.evidence
    assert flags(detector, machine.gross(300)).all()
    assert detector.evidence == evidence
    assert detector.threshold == pytest.approx(before, rel=0.3)
    require_rate(flags(detector, machine.rows(5000)), rate)


@RATES
def test_gross_anomalies_among_normal_rows_stay_flagged_and_do_not_spoil_the_rate(
    rate: float,
) -> None:
    machine, detector = Machine(0), made(rate)
    detector.learn_many(machine.rows(600))
    rows = machine.rows(10000)
    bad = machine.rng.random(10000) < 0.05
    rows[bad] = machine.gross(int(bad.sum()))
    flagged = flags(detector, rows)
    assert flagged[bad].all()
    require_rate(flagged[~bad][:9000], rate, window=4500)


# Bulk learning


@pytest.mark.parametrize(("units", "rows"), [(4, 500), (40, 160), (40, 120), (40, 100)])
def test_after_bulk_learning_the_rate_holds_on_rows_not_seen_before(units: int, rows: int) -> None:
    """Also with so few rows that the model has learned most of them by heart."""
    rate, layer = 0.05, HiddenLayer(60, units, seed=1)
    fresh, by_heart = [], []
    for seed in range(12):
        machine = Machine(seed, inputs=60)
        detector = Detector(layer, threshold=FalseAlarmRate(rate))
        learned, unseen = machine.rows(rows), machine.rows(500)
        detector.learn_many(learned)
        assert detector.state == "watching"
        scores = detector.score_many(unseen)
        fresh.append(np.mean(scores > detector.threshold))
        by_heart.append(np.mean(scores > np.quantile(detector.score_many(learned), 1.0 - rate)))
    assert 0.4 * rate < np.mean(fresh) < 2.5 * rate
    if rows < 4 * units:
        # What a threshold from the scores of learned rows would have given.
        assert np.mean(by_heart) > 5 * rate


# Cooperation


@RATES
def test_after_a_merge_the_threshold_is_another_and_the_rate_holds_on_the_own_rows(
    rate: float,
) -> None:
    machine, detector, other = Machine(0), made(rate), made(rate)
    detector.learn_many(machine.rows(600))
    alone = detector.threshold
    other.learn_many(Machine(9).rows(600))
    detector.merge(other.evidence)
    assert detector.threshold > 1.2 * alone
    require_rate(detector.score_many(machine.rows(5000)) > detector.threshold, rate)
    require_rate(flags(detector, machine.rows(5000)), rate)


@RATES
def test_a_device_that_knows_little_itself_may_rest_on_what_it_received(rate: float) -> None:
    """Much more received than own: the scores of the own rows still decide."""
    machine = Machine(0)
    teacher, detector = made(rate), made(rate)
    teacher.learn_many(machine.rows(50000))
    detector.learn_many(machine.rows(150))
    detector.merge(teacher.evidence)
    assert detector.state == "watching"
    require_rate(flags(detector, machine.rows(5000)), rate)
