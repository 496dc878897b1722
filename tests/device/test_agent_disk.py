"""An agent outlives its disk: full, read-only or broken, it watches, alarms, and saves later."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.device.agent import Agent
from elmgrove.device.notify import Command
from elmgrove.device.settings import Settings
from elmgrove.exchange.folder import FolderExchange
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.storage.disk import locked
from support.agents import LIKE, Start, append_rows, asked, at_work, learned, verdicts
from support.factories import detector_in, normal_rows, write_rows
from support.faults import Disk, full, full_for
from support.faults import disk_fixture as disk_fixture
from support.serving import charter, seeded_contribution, wait_until

pytestmark = pytest.mark.usefixtures("own_folder")
FAN = LIKE | {"source": "fan.csv", "follow": True, "save_rows": 5}
STATE = Path("fan.elm")


def test_a_full_disk_ends_nothing(device: Start, tmp_path: Path) -> None:
    """All at once: it saves, writes, syncs, is asked, and alarms by a command."""
    exchange = FolderExchange(Path("fans"))
    FolderExchange.create(Path("fans"), charter("fans", merged=False))
    alarm = "touch alarm.told"
    soon = {"watch_now": True, "alarm": "1/1", "command": alarm, "guard": False}
    write_rows(Path("fan.csv"), normal_rows(1, 200))
    fan = device("fan", follow=True, save_rows=5, exchange="fans", sync_seconds=0.1, **soon)
    fan.until(lambda: learned(STATE) >= 200 and "sums of 200 rows sent" in fan.log)
    before = STATE.read_bytes()
    most = len(fan.log) + 4000
    assert most < min(len(before), Path("fan.jsonl").stat().st_size)

    with full_for(fan.process.pid, most):
        append_rows(Path("fan.csv"), normal_rows(2, 20))
        append_rows(Path("fan.csv"), normal_rows(3, 5) + 1000.0)
        fan.logs("fan.elm can't be saved: File too large; watching goes on")
        fan.logs("fan.jsonl takes no verdicts: File too large; watching and alarms go on")
        wait_until(Path("alarm.told").exists)
        fan.logs("nothing new is sent, since it can't be saved: fan.elm: File too large")
        assert [one.evidence.count for one in exchange.entries()] == [200.0]
        exchange.publish(seeded_contribution("other", 5))
        # The log says the same trouble once.
        fan.until(lambda: asked(STATE, "status").get("others") == 1)
        answer = asked(STATE, "tune", rate=0.25)
        assert answer["problem"] == "not-saved"
        assert "fan.elm: File too large" in answer["detail"]
        assert asked(STATE, "status")["rate"] == 0.01, "what can't be saved is not done"
        assert STATE.read_bytes() == before
        assert fan.log.count("can't be saved: File too large; watching goes on") == 1

    fan.logs("fan.elm is saved again")
    append_rows(Path("fan.csv"), normal_rows(4, 5))
    fan.logs("fan.jsonl takes verdicts again; 25 were lost")
    assert asked(STATE, "tune", rate=0.25)["status"]["rate"] == 0.25
    assert detector_in(STATE).progress.rate == 0.25
    fan.until(lambda: exchange.entries()[0].epoch > 200)
    assert fan.stop() == 0
    assert len(verdicts(Path("fan.jsonl"))) == 205
    assert [path.name for path in tmp_path.glob(".fan.*")] == []


def test_what_could_not_be_saved_at_the_end_is_an_error() -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 30))
    with full(100), pytest.raises(OSError, match="too large"):
        Agent(Settings(**LIKE | {"source": "fan.csv", "verdicts": ""})).run()
    assert not STATE.exists()


def test_a_disk_that_is_full_at_the_start(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    room = disk.path / "room"
    with pytest.raises(OSError, match="space"):
        room.write_bytes(bytes(1 << 17))
    write_rows(Path("fan.csv"), normal_rows(1, 30))
    state = disk.path / "fan.elm"
    with at_work(**FAN | {"state": str(state)}):
        wait_until(lambda: "No space left on device; watching goes on" in caplog.text)
        wait_until(lambda: len(verdicts(Path("fan.jsonl"))) == 30)
        room.unlink()
        append_rows(Path("fan.csv"), normal_rows(2, 5))
        wait_until(lambda: learned(state) == 35)


def test_a_disk_that_is_read_only_at_the_start(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 30))
    disk.remount("ro")
    state, lines = disk.path / "fan.elm", disk.path / "fan.jsonl"
    with at_work(**FAN | {"state": str(state), "verdicts": str(lines)}):
        wait_until(lambda: "fan.elm can't be saved: Read-only file system" in caplog.text)
        wait_until(lambda: "fan.jsonl takes no verdicts" in caplog.text)
        disk.remount("rw")
        append_rows(Path("fan.csv"), normal_rows(2, 5))
        wait_until(lambda: learned(state) == 35)
        with pytest.raises(ValueError, match="in use"), locked(state):
            pass
    assert "fan.elm is saved again" in caplog.text
    assert 5 <= len(verdicts(lines)) <= 35


def test_what_an_agent_left_that_was_killed_is_removed_at_the_next_start() -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 30))
    gone = [Path(".fan.elm.0a1b2c3d"), Path(".fan.key.00000000")]
    stay = [Path(name) for name in (".fan.elm.notes", ".fan.elm.0a1b2c3", ".pan.elm.0a1b2c3d")]
    for path in gone + stay:
        path.write_bytes(b"rows")
    Agent(Settings(**LIKE | {"source": "fan.csv", "verdicts": ""})).run()
    assert [path.exists() for path in gone + stay] == [False, False, True, True, True]


def test_a_state_that_is_a_link_stays_one() -> None:
    Path("elsewhere").mkdir()
    STATE.symlink_to("elsewhere/real.elm")
    write_rows(Path("fan.csv"), normal_rows(1, 30))
    with at_work(**FAN):
        wait_until(lambda: learned(Path("elsewhere/real.elm")) == 30)
        assert asked(Path("elsewhere/real.elm"), "status")["learned"] == 30, "by either name"
        with pytest.raises(ValueError, match="in use"), locked(Path("elsewhere/real.elm")):
            pass
    assert STATE.is_symlink()
    assert [path.name for path in Path("elsewhere").iterdir()] == ["real.elm"]


def test_a_command_is_run_where_no_disk_takes_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "nowhere")
    Command("cp /dev/stdin told").tell({"kind": "opened"}, lambda seconds: None)
    assert Path("told").read_text() == '{"kind": "opened"}\n'


@pytest.mark.parametrize("patterns", ["1", "auto"])
def test_a_ridge_of_0_is_no_end(patterns: str) -> None:
    """The first rows have no solution, and so no score but their own size."""
    basis = Basis(HiddenLayer(inputs=6, units=3, activation="sigmoid", seed=3), 6, score="loss")
    FolderExchange.create(Path("fans"), Charter("fans", basis, ridge=0.0))
    few = Evidence.zero(basis)
    FolderExchange(Path("fans")).publish(Contribution("other", 1, (few,)))
    X = normal_rows(1, 40)
    X[:10] = 0.5
    write_rows(Path("fan.csv"), X)
    joined = {"name": "fan", "state": "fan.elm", "source": "fan.csv", "exchange": "fans"}
    Agent(Settings(**joined, patterns=patterns, verdicts="fan.jsonl", sync_seconds=0.001)).run()
    found = verdicts(Path("fan.jsonl"))
    assert [one["score"] for one in found[:10]] == pytest.approx([0.25] * 10)
    assert len(found) == 40
    assert learned(STATE) == 40
    assert all(np.isfinite(one["score"]) for one in found)
