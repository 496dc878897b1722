"""The paper's Figures 6 and 7, through a real server: one device's normal becomes another's."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from elmgrove import Basis, Detector, FalseAlarmRate, HiddenLayer, Scaling
from elmgrove.exchange.session import Session, connect
from elmgrove.federation.charter import Charter
from support.ports import free_port
from support.serving import Server, answers, process, wait_until


@dataclass
class Patterns:
    """Rows of three kinds: device A's normal, device B's normal, and what neither knows."""

    basis: Basis
    learned: dict[str, np.ndarray]
    fresh: dict[str, np.ndarray]

    def central(self) -> Detector:
        """One device that has the rows of both."""
        made = Detector.for_basis(self.basis)
        made.learn_many(np.vstack([self.learned["a"], self.learned["b"]]))
        return made


def patterns(rows: dict[str, np.ndarray], units: int, scaling: Scaling) -> Patterns:
    """Two thirds of the rows of each kind are for learning."""
    learned, fresh = {}, {}
    for name, X in rows.items():
        mixed = np.random.default_rng(0).permutation(X)
        learned[name], fresh[name] = np.split(mixed, [2 * len(X) // 3])
    inputs = len(X[0])
    return Patterns(Basis(HiddenLayer(inputs, units), inputs, None, scaling), learned, fresh)


def digits(a: int, b: int, c: int) -> Patterns:
    X, kinds = load_digits(return_X_y=True)
    rows = {"a": X[kinds == a] / 16, "b": X[kinds == b] / 16, "c": X[kinds == c] / 16}
    return patterns(rows, 16, Scaling())


def wines(score: str = "loss") -> Patterns:
    X, kinds = load_wine(return_X_y=True)
    rows = {"a": X[kinds == 0], "b": X[kinds == 2], "c": X[kinds == 1]}
    made = patterns(rows, 5, Scaling.fitted("standard", X))
    return replace(made, basis=replace(made.basis, score=score))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    store, port = f"sqlite:///{tmp_path}/store.db", free_port()
    with process(store, port=port):
        wait_until(lambda: answers(port))
        made = Server(f"http://127.0.0.1:{port}", store)
        with made.http:
            yield made


@contextmanager
def devices(server: Server, known: Patterns) -> Iterator[tuple[Session, Session]]:
    """Device A, which has learned its pattern, and device B with another."""
    token, url = (
        server.found(Charter("fleet", known.basis, merged=True)).token,
        f"{server.base}/fleet",
    )
    # A rate that a hundred rows suffice for.
    rate = FalseAlarmRate(0.05, confidence=0)
    # Digits have pixels that are hardly ever lit: with the guard, rows that light them wait.
    options: dict[str, Any] = {"token": token, "threshold": rate, "guarded": False}
    with connect(url, "device-a", **options) as a, connect(url, "device-b", **options) as b:
        a.detector.learn_many(known.learned["a"])
        b.detector.learn_many(known.learned["b"])
        yield a, b


def losses(session: Session, known: Patterns) -> dict[str, float]:
    """The median loss of each pattern."""
    return {
        name: float(np.median(session.detector.score_many(X))) for name, X in known.fresh.items()
    }


def flagged(session: Session, X: np.ndarray) -> float:
    """The share of rows beyond the device's own threshold."""
    return float(np.mean(session.detector.score_many(X) > session.detector.threshold))


def away_from(session: Session, central: Detector) -> float:
    return float(np.abs(session.detector.model.beta - central.model.beta).max())


@pytest.mark.parametrize("kinds", [(0, 1, 4), (6, 7, 2)])
def test_what_is_normal_at_one_device_is_normal_at_the_other_after_one_sync(
    server: Server, kinds: tuple[int, int, int]
) -> None:
    known = digits(*kinds)
    with devices(server, known) as (a, b):
        at_home, before = losses(a, known), losses(b, known)
        assert before["a"] > 5 * at_home["a"]
        assert flagged(b, known.fresh["a"]) > 0.9
        assert flagged(b, known.fresh["c"]) > 0.8

        a.sync()
        report = b.sync()
        assert (report.devices, report.updated, report.refusal) == (1, True, None)

        after = losses(b, known)
        assert after["a"] < 2 * at_home["a"]
        assert after["b"] < 2 * before["b"]
        assert flagged(b, known.fresh["a"]) < 0.2
        assert flagged(b, known.fresh["b"]) < 0.3
        # What neither has learned stays anomalous; the threshold is of 60 rows, with a margin for
        # how few they are.
        assert after["c"] > 4 * after["a"]
        assert flagged(b, known.fresh["c"]) > 2 * flagged(b, known.fresh["b"])
        assert flagged(b, known.fresh["c"]) > 0.35


@pytest.mark.parametrize("known", [digits(0, 1, 4), wines()], ids=["digits", "wines"])
def test_both_devices_end_with_the_model_of_central_training(
    server: Server, known: Patterns
) -> None:
    with devices(server, known) as (a, b):
        at_home, before = losses(a, known), losses(b, known)
        assert before["a"] > 2 * at_home["a"]
        central = known.central()
        for session in (a, b):
            assert away_from(session, central) > 1e-3
        for session in (a, b, a):
            session.sync()
        for session in (a, b):
            assert away_from(session, central) < 1e-9
        assert losses(b, known)["a"] < 1.6 * at_home["a"]
        assert losses(b, known)["c"] > 0.6 * before["c"]


def test_by_distance_both_devices_end_with_the_model_of_central_training(server: Server) -> None:
    known = wines("distance")
    rows = np.vstack(list(known.fresh.values()))
    with devices(server, known) as (a, b):
        expected, before = known.central().score_many(rows), losses(b, known)
        for session in (a, b, a):
            session.sync()
        for session in (a, b):
            np.testing.assert_allclose(session.detector.score_many(rows), expected, rtol=1e-9)
        assert losses(b, known)["a"] < 0.5 * before["a"]
        a.leave()
        b.sync()
        assert losses(b, known) == pytest.approx(before, rel=1e-9)
