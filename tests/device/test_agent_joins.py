"""A device that learned by itself joins a federation with what it learned, or says why not."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove import Basis
from elmgrove.device.background_sync import AgentSession
from elmgrove.device.settings import Settings
from elmgrove.errors import Mismatch
from elmgrove.exchange.folder import FolderExchange
from elmgrove.federation.charter import Charter
from support.commands import Elmgrove
from support.factories import member_in

NAMES = ("flow", "amp", "rpm")


def write(path: str, seed: int, count: int, offset: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(count, 1)) * [3.0, 0.2, 90.0] + rng.normal(size=(count, 3))
    made += np.array([20.0, 3.0, 1450.0]) + offset
    np.savetxt(path, made, delimiter=",", header=",".join(NAMES), comments="")
    return made


def test_what_was_learned_is_converted_and_goes_on(
    elmgrove: Elmgrove, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    others = write("others.csv", 2, 500, offset=4.0)
    own, new = write("own.csv", 1, 900), write("new.csv", 3, 200)
    elmgrove("learn", "own.csv", "--state", "pump.elm")
    charter = Charter("pumps", Basis.fitted(others, NAMES, scaling="standard"))
    FolderExchange.create(Path("shared"), charter)
    given = ("--source", "new.csv", "--state", "pump.elm", "--verdicts", "", "--sync-seconds", 0.1)
    assert elmgrove("device", "run", *given, "--exchange", "shared").code == 0
    assert "what was learned was converted to what pumps has in common" in caplog.text
    saved = member_in("pump.elm")
    assert saved.detector.basis.fingerprint == charter.basis.fingerprint
    assert saved.detector.learned + len(saved.detector.quarantine) == 1100
    expected = charter.start("pump").detector
    expected.learn_many(own)
    assert saved.detector.score_many(new) == pytest.approx(
        expected.score_many(new), rel=0.1, abs=0.1
    )
    held = {one.origin: one for one in FolderExchange(Path("shared")).entries()}
    assert held["pump"].basis.fingerprint == charter.basis.fingerprint, "and others get it"
    # From then on it is one of them.
    caplog.clear()
    assert elmgrove("device", "run", *given, "--exchange", "shared").code == 0
    assert "converted" not in caplog.text


def test_where_it_can_not_be_converted_it_ends_and_says_what_to_do(elmgrove: Elmgrove) -> None:
    others = write("others.csv", 2, 500)
    write("own.csv", 1, 900)
    elmgrove("learn", "own.csv", "--state", "pump.elm")
    before = Path("pump.elm").read_bytes()
    charter = Charter("pumps", Basis.fitted(others, NAMES, scaling="standard", window=10))
    FolderExchange.create(Path("shared"), charter)
    given = ("--source", "own.csv", "--verdicts", "", "--exchange", "shared")
    ran = elmgrove("device", "run", *given, "--state", "pump.elm")
    assert ran.code == 1
    said = " ".join(ran.err.split())
    assert "can't be converted to what 'pumps' has in common: window: 1 here, 10 there." in said
    command = "elmgrove device run --state pump-pumps.elm --exchange shared --source own.csv"
    assert command in said
    assert Path("pump.elm").read_bytes() == before
    # The commands that it says.
    assert elmgrove(*command.split()[1:], "--verdicts", "").code == 0
    assert member_in("pump-pumps.elm").detector.window == 10
    assert elmgrove("learn", "others.csv", "--state", "pump-pumps.elm").code == 0


def test_a_federation_that_can_be_asked_later_is_joined_with_the_next_start(
    elmgrove: Elmgrove,
) -> None:
    others = write("others.csv", 2, 500)
    write("pump.csv", 1, 900)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    charter = Charter("pumps", Basis.fitted(others, NAMES, scaling="standard"))
    FolderExchange.create(Path("shared"), charter)
    exchange = FolderExchange(Path("shared"))
    session = AgentSession(member_in("pump.elm"), exchange, Settings(state="pump.elm"))
    with pytest.raises(Mismatch, match="Start the agent again: it converts what it learned"):
        session.transfer(session.prepare())
