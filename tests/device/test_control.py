"""A running agent is asked and told: by its own thread, saved before it is answered."""

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from elmgrove.device import actions, control
from elmgrove.device.control import MOST_BYTES, Control
from elmgrove.device.settings import Settings
from elmgrove.errors import InconsistentState
from elmgrove.federation.member import Member
from support.agents import LIKE, append_rows, asked, at_work, said, socket_of, verdicts
from support.factories import detector_in, normal_rows, write_rows
from support.ports import reserved_port
from support.serving import wait_until

pytestmark = pytest.mark.usefixtures("own_folder")
FAN = LIKE | {"source": "fan.csv", "follow": True}
STATE = Path("fan.elm")


def rate(path: Path = STATE) -> float | None:
    """The rate that a state states."""
    return detector_in(path).progress.rate


def seen(number: int) -> Callable[[], bool]:
    return lambda: len(verdicts(Path("fan.jsonl"))) == number


def test_it_says_how_the_device_is_doing_now() -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 30))
    with at_work(**FAN | {"save_rows": 1000}):
        wait_until(seen(30))
        found = asked(STATE, "status")
        assert (found["name"], found["learned"], found["state"]) == ("fan", 30, "learning")
        assert found["rows"] == {"used": 30, "left_out": 0}
        assert found["agent"]["where"] == "fan.csv, line 30"
        assert found["agent"]["rows"] == 30
        assert found["agent"]["source"] == "fan.csv"
        assert not STATE.exists(), "what it says is what it knows, not what it saved"
        append_rows(Path("fan.csv"), normal_rows(2, 5))
        wait_until(lambda: asked(STATE, "status")["learned"] == 35)


def test_before_its_first_rows_it_says_what_it_waits_for() -> None:
    settings = {"state": "fan.elm", "verdicts": "", "source": "fan.csv", "follow": True}
    with at_work(**settings):
        wait_until(lambda: socket_of(STATE) is not None)
        assert asked(STATE, "status")["agent"]["waits_for"] == "its first rows"
        write_rows(Path("fan.csv"), normal_rows(1, 40))
        wait_until(
            lambda: asked(STATE, "status")["agent"]["waits_for"] == "its first rows: 40 of 100"
        )
        answer = asked(STATE, "tune", rate=0.5)
        assert answer["problem"] == "busy"
        assert "it waits for its first rows: 40 of 100" in answer["detail"]
        append_rows(Path("fan.csv"), normal_rows(2, 60))
        wait_until(lambda: "waits_for" not in asked(STATE, "status")["agent"])


def test_before_its_federation_answers_it_says_so() -> None:
    with reserved_port() as port:
        url = f"http://127.0.0.1:{port}/fans"
        settings = {"state": "fan.elm", "verdicts": "", "source": "fan.csv", "exchange": url}
        with at_work(**settings, token="t", follow=True):
            said = f"its federation, {url}"
            wait_until(lambda: asked(STATE, "status")["agent"]["waits_for"] == said)


def test_what_it_acknowledged_is_saved() -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 30))
    with at_work(**FAN | {"save_rows": 1000, "save_seconds": 1000.0}):
        wait_until(seen(30))
        answer = asked(STATE, "tune", rate=0.002)
        assert rate() == 0.002, "before it was answered"
        assert answer["said"][0] == "rate: 0.002, before 0.01"
        assert answer["status"]["rate"] == 0.002
        assert asked(STATE, "status")["rate"] == 0.002
        append_rows(Path("fan.csv"), normal_rows(2, 5))
        wait_until(seen(35))
    assert detector_in(STATE).learned == 35


@pytest.mark.parametrize(
    ("action", "words", "said"),
    [
        ("tune", {"rate": 7}, "between 0 and 1"),
        ("tune", {"rate": "much"}, "rate must be a number"),
        ("tune", {"colour": 1}, "not 'colour'"),
        ("tune", {"rate": 0.1, "dry_run": "yes"}, "dry_run is true or false"),
        ("accept", {"from": "yesterday"}, "'yesterday' is no time"),
        ("accept", {"from": True}, "True is no time"),
        ("accept", {"from": 2, "to": 1}, "ends after it begins"),
        ("accept", {"from": 1, "rows": [[1.0] * 6]}, "in one way"),
        ("accept", {"rows": [[1.0]]}, "columns"),
        ("accept", {"rows": "all"}, ""),
        ("accept", {"rows": [[1.0] * 6], "times": ["now"]}, ""),
        ("accept", {"rows": [{}]}, ""),
        ("accept", {"instead": 1}, "instead is true or false"),
        ("reject", {"to": []}, "[] is no time"),
        ("reject", {"rows": []}, "not 'rows'"),
    ],
)
def test_what_can_not_be_done_is_refused_with_a_reason(
    action: str, words: dict[str, Any], said: str
) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 10))
    with at_work(**FAN):
        wait_until(seen(10))
        answer = asked(STATE, action, **words)
        assert answer["problem"] == "refused"
        assert said in answer["detail"]
        append_rows(Path("fan.csv"), normal_rows(2, 5))
        wait_until(seen(15))
        assert asked(STATE, "status")["learned"] == 15, "and it goes on as if nothing had been"


def test_many_who_tell_at_once_get_their_turns() -> None:
    write_rows(Path("fan.csv"), normal_rows(1, 30))
    answers = list[dict[str, Any]]()
    with at_work(**FAN):
        wait_until(seen(30))

        def tell(number: int) -> None:
            answers.append(asked(STATE, "tune", rate=number / 100.0))

        threads = [threading.Thread(target=tell, args=[number]) for number in range(1, 11)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Each changed what another had left behind, so they came one after another.
        became = {answer["status"]["rate"] for answer in answers}
        assert became == {number / 100.0 for number in range(1, 11)}
        assert asked(STATE, "status")["rate"] == rate()


def test_one_whose_turn_does_not_come_is_told_and_nothing_is_done_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "TURN", 0.3)
    with Control(Settings(state="fan.elm")) as made:
        made.waits_for = None
        answer = asked(STATE, "tune", rate=0.002)
        assert answer["problem"] == "busy"
        assert "its turn did not come" in answer["detail"]

        def step(*_: Any) -> dict[str, Any]:
            raise AssertionError("it was cancelled")

        made.step(None, step, step)  # type: ignore[arg-type]


def test_at_the_end_those_who_wait_are_told() -> None:
    answers = list[dict[str, Any]]()
    with Control(Settings(state="fan.elm")) as made:
        made.waits_for = None
        waiting = threading.Thread(target=lambda: answers.append(asked(STATE, "tune", rate=0.1)))
        waiting.start()
        wait_until(lambda: not made._asked.empty())
        made.end()
        waiting.join()
        answers.append(asked(STATE, "tune", rate=0.1))
    assert [answer["problem"] for answer in answers] == ["busy", "busy"]
    assert all("the agent ends" in answer["detail"] for answer in answers)


def test_a_fault_is_met_on_a_copy_and_the_agent_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def half(member: Member, *_: Any) -> Any:
        member.detector.progress.rate = 0.5
        raise RuntimeError("secret details")

    def unfit(member: Member, *_: Any) -> Any:
        member.detector.progress.rate = 0.5
        member.detector.taken = -1
        return {"said": []}

    write_rows(Path("fan.csv"), normal_rows(1, 30))
    with at_work(**FAN):
        wait_until(seen(30))
        for fault, problem in ((half, "internal"), (unfit, "refused")):
            monkeypatch.setitem(actions.ACTIONS, "tune", actions.Action(fault, changes=True))
            answer = asked(STATE, "tune")
            assert answer["problem"] == problem
            assert "secret" not in answer["detail"]
            assert asked(STATE, "status")["rate"] == 0.01
        append_rows(Path("fan.csv"), normal_rows(2, 5))
        wait_until(seen(35))
    assert rate() == 0.01
    assert "secret details" in caplog.text


def test_after_a_change_that_failed_half_way_the_state_is_what_it_was_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows how far it came: the agent ends, and begins again from its state."""
    tries = list[int]()

    def half(member: Member, *_: Any) -> Any:
        tries.append(1)
        member.detector.progress.rate = 0.5
        if len(tries) > 1:
            raise RuntimeError("secret details")
        return {"said": []}

    monkeypatch.setitem(actions.ACTIONS, "tune", actions.Action(half, changes=True))
    write_rows(Path("fan.csv"), normal_rows(1, 30))

    def work() -> None:
        with at_work(**FAN | {"save_rows": 10}):
            wait_until(seen(30))
            answer = asked(STATE, "tune")
            assert answer["problem"] == "internal"
            assert "secret" not in answer["detail"]

    with pytest.raises(InconsistentState, match="secret details"):
        work()
    assert rate() == 0.01


def test_the_socket_is_for_its_owner_and_gone_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / ".fan.elm.sock"
    write_rows(Path("fan.csv"), normal_rows(1, 10))
    place.write_text("left behind by an agent that was killed")
    with at_work(**FAN):
        wait_until(seen(10))
        assert place.is_socket()
        assert place.stat().st_mode & 0o777 == 0o600
        assert asked(STATE, "status")["learned"] == 10
    assert not place.exists()


def test_where_there_can_be_no_socket_it_works_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    write_rows(Path("fan.csv"), normal_rows(1, 10))
    with at_work(**FAN | {"state": str(folder / "fan.elm")}):
        wait_until(seen(10))
    assert "no local socket" in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{\n",
        b"[1]\n",
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        b" " * (MOST_BYTES + 1),
        b'{"action": "tune", "rate": NaN}\n',
        b'{"action": "nothing"}\n',
        b'{"action": ["tune"]}\n',
        b"POST /v1/tune HTTP/1.1\r\n",
    ],
    ids=lambda line: repr(line)[:20],
)
def test_what_is_no_request_is_refused_and_the_agent_goes_on(line: bytes) -> None:
    with Control(Settings(state="fan.elm")) as made, socket.socket(socket.AF_UNIX) as slow:
        slow.connect(str(socket_of(STATE)))
        slow.sendall(b'{"action": "tu')
        assert said(STATE, line)["problem"] in ("malformed", "refused")
        made.waits_for = "its first rows"
        assert asked(STATE, "status")["agent"]["waits_for"] == "its first rows"


def test_callers_that_hang_up_or_say_nothing_are_no_trouble(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with Control(Settings(state="fan.elm")), ExitStack() as held:
        for number in range(100):
            caller = held.enter_context(socket.socket(socket.AF_UNIX))
            caller.connect(str(socket_of(STATE)))
            if number % 2:
                caller.sendall(b'{"action": "status"}\n')
                caller.close()
        assert "agent" in asked(STATE, "status")
    assert (capfd.readouterr().err, caplog.text) == ("", "")
