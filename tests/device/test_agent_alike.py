"""Agents beside others at other levels: what is logged, and own units."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis
from elmgrove.device.agent import Agent
from elmgrove.device.output import PeerLog
from elmgrove.device.settings import Settings
from elmgrove.errors import BadInput
from elmgrove.exchange.folder import FolderExchange
from elmgrove.exchange.session import connect
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.storage.disk import save
from support.agents import NAMES
from support.factories import member_in, write_rows
from support.factories import normal_rows as noise
from support.serving import Federation, Server, serving

pytestmark = pytest.mark.usefixtures("own_folder")

MIXING = np.random.default_rng(0).normal(size=(6, 6))


def rows(seed: int, count: int, shift: float = 0.0) -> np.ndarray:
    made = noise(seed, count) @ MIXING
    made[:, 0] += shift
    return made


def charter(scaling: str = "standard", **more: Any) -> Charter:
    return Charter("pumps", Basis.fitted(rows(0, 500), NAMES, scaling=scaling), **more)


def run(name: str, X: np.ndarray, **more: Any) -> Member:
    write_rows(Path(f"{name}.csv"), X, NAMES)
    usual = {"name": name, "state": f"{name}.elm", "source": f"{name}.csv", "verdicts": ""}
    Agent(Settings(**usual | more)).run()
    return member_in(f"{name}.elm")


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "elmgrove.device")
    return caplog


@pytest.mark.parametrize("merged", [False, True])
def test_the_log_says_once_that_others_are_at_other_levels(
    warned: pytest.LogCaptureFixture, merged: bool
) -> None:
    FolderExchange.create(Path("shared"), charter(merged=merged))
    run("pump-1", rows(1, 300), exchange="shared")
    assert warned.messages == []
    run("pump-2", rows(2, 300, shift=900.0), exchange="shared", sync_seconds=0.01)
    [warning] = warned.messages
    assert warning.startswith("not alike: sensor 0 is ")
    whose = "the others'" if merged else "pump-1's"
    assert f" deviations from {whose}" in warning
    assert ": another kind of machine? use own units, or a federation of its own" in warning
    assert ("they will be one model" in warning) == merged


def test_what_is_unlike_is_told_again_only_after_it_was_alike(
    warned: pytest.LogCaptureFixture,
) -> None:
    federation = charter()
    far = {name: federation.start(name) for name in ("b", "c", "d", "e", "f")}
    member = federation.start("a")
    member.detector.learn_many(rows(1, 300))
    for place, other in enumerate(far.values()):
        other.detector.learn_many(rows(2 + place, 300, shift=(-1.0) ** place * 300.0 * (1 + place)))
        member.receive(other.contribution())
    log = PeerLog(member)
    log.compare()
    assert len(warned.messages) == 4
    assert warned.messages[-1] == "not alike: 2 more devices"
    log.compare()
    assert len(warned.messages) == 4
    near = federation.start("b")
    near.detector.learn_many(rows(9, 400))
    before = member.ledger.get("b")
    assert isinstance(before, Contribution)
    member.receive(near.contribution())
    log.compare()
    assert len(warned.messages) == 4
    member.receive(Contribution("b", 500, before.parts))
    log.compare()
    assert len(warned.messages) == 5


# Own units


def test_a_federation_in_own_units_on_a_server_that_starts_again(
    tmp_path: Path, warned: pytest.LogCaptureFixture
) -> None:
    """Two machines whose sensors have other units and levels have one model, each in its own."""
    store = f"sqlite:///{tmp_path}/store.db"
    X, Y = rows(1, 400), rows(2, 400)
    factor, level = np.array([1.0, 5.0, 0.01, 3.0, 1.0, 2.0]), 1e3 * np.arange(6)
    write_rows(Path("normal-1.csv"), X, NAMES)
    write_rows(Path("normal-2.csv"), level + factor * X, NAMES)
    made = charter("own", merged=True)
    with serving(store) as server:
        federation = server.found(made)
        _run_on(server, federation, "pump-1", X, units_from="normal-1.csv")
    with serving(store) as server:
        here = {"units_from": "normal-2.csv"}
        second = _run_on(server, federation, "pump-2", level + factor * Y, **here)
        with connect(f"{server.base}/pumps", "pump-1", state="pump-1.elm") as session:
            assert session.exchange.charter == made
            assert session.sync().devices == 1
            first = session.member
    assert warned.messages == []
    assert first.merged is not None
    assert second.merged is not None
    assert first.merged.evidence.basis == made.basis, "nobody's units"
    new = rows(3, 50)
    np.testing.assert_allclose(
        first.detector.score_many(new), second.detector.score_many(level + factor * new), rtol=1e-6
    )


def _run_on(
    server: Server, federation: Federation, name: str, X: np.ndarray, **more: Any
) -> Member:
    exchange = f"{server.base}/{federation.charter.name}"
    settings = {"exchange": exchange, "token": federation.token, "watch_now": True}
    return run(name, X, rate=1e-9, **settings | more)


def test_units_that_are_missing_or_of_no_use_are_an_error() -> None:
    FolderExchange.create(Path("own"), charter("own"))
    FolderExchange.create(Path("common"), charter())
    write_rows(Path("normal.csv"), rows(2, 250), NAMES)
    with pytest.raises(BadInput, match="rows of its own: give units_from"):
        run("pump", rows(1, 50), exchange="own")
    with pytest.raises(BadInput, match=r"units_from: the scaling \(standard\)"):
        run("pump", rows(1, 50), exchange="common", units_from="normal.csv")
    with pytest.raises(BadInput, match="units_from: without exchange and like"):
        run("pump", rows(1, 200), units_from="normal.csv")
    assert not Path("pump.elm").exists()
    with pytest.raises(BadInput, match="give units_from"):
        connect("own", "pump")
    with connect("own", "pump", units_from=rows(2, 250)) as session:
        assert session.detector.basis.scaling.shift
    save(Path("like.elm"), session.member)
    with pytest.raises(BadInput, match="give units_from"):
        run("pump", rows(1, 50), like="like.elm")
