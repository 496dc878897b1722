"""Alarms reach real servers and real programs, and never hold anything up."""

import json
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elmgrove import BadInput
from elmgrove.device import notify
from elmgrove.device.notify import Alarms, Command, Webhook
from elmgrove.device.settings import Settings
from elmgrove.exchange.backoff import Backoff
from support.exchanges import Asked, Pieces, Reply, saying
from support.ports import free_port
from support.serving import wait_until

PATIENCE = 120.0


class Server:
    """Answers with the codes it was given, then with 204; keeps what it was told."""

    def __init__(self) -> None:
        self.url = ""
        self.codes: list[int] = []
        self.told: list[Any] = []
        self.headers: list[dict[str, str]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, asked: Asked) -> Reply:
        self.may_answer.wait(PATIENCE)
        kind = asked.headers["Content-Type"]
        said = json.loads(asked.body) if "json" in kind else asked.body.decode()
        self.told.append((kind, asked.path, said))
        self.headers.append(asked.headers)
        return Reply(self.codes.pop(0) if self.codes else 204)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    with saying(made) as url:
        made.url = f"{url}/secret"
        yield made
        made.may_answer.set()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "Backoff", lambda: Backoff(first=0.01))
    # So that a server is taken for one that failed only if the test makes it one.
    monkeypatch.setattr(notify, "POST_SECONDS", PATIENCE)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "elmgrove.device"]


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "alarm script.py"
    path.write_text(text)
    return shlex.join([sys.executable, str(path), str(tmp_path / "told $HOME.jsonl")])


def received(tmp_path: Path) -> list[Any]:
    return [json.loads(line) for line in (tmp_path / "told $HOME.jsonl").read_text().splitlines()]


NOTE = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read()); print('noise')"


# A web address


def test_after_five_attempts_the_next_alarm_has_its_turn(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.codes = [500] * 5
    alarms = Alarms(Settings(webhook=server.url))
    alarms.send({"n": 1})
    alarms.send({"n": 2})
    alarms.close(PATIENCE)
    assert [message["n"] for _, _, message in server.told] == [1, 1, 1, 1, 1, 2]
    assert warnings(caplog) == ["alarm not delivered to 127.0.0.1: it answered 500"]


@pytest.mark.parametrize("code", [400, 404, 301])
def test_a_refusal_is_logged_once_and_not_repeated(
    server: Server, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    server.codes = [code]
    alarms = Alarms(Settings(webhook=server.url))
    alarms.send({})
    alarms.close(PATIENCE)
    assert len(server.told) == 1
    assert warnings(caplog) == [f"alarm refused by 127.0.0.1: it answered {code}"]


def told_by_a_stranger(answer: Callable[[], Reply | Pieces], alarms: int) -> list[int]:
    """The numbers of the alarms that reached an address that answers so."""
    heard = list[int]()

    def answered(asked: Asked) -> Reply | Pieces:
        heard.append(json.loads(asked.body)["n"])
        return answer()

    with saying(answered) as url:
        queue = Alarms(Settings(webhook=f"{url}/secret"))
        for n in range(alarms):
            queue.send({"n": n})
        queue.close(PATIENCE)
    return heard


def dripping(begin: bytes) -> Pieces:
    yield begin
    for _ in range(600):
        time.sleep(0.1)
        yield b"x"


@pytest.mark.parametrize(
    "answer",
    [
        lambda: Reply(200, b"no gzip", {"Content-Encoding": "gzip"}),
        lambda: Reply(200, b"x" * 10**6),
        lambda: dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"),
        lambda: dripping(b"HTTP/1.1 200 OK\r\n\r\n"),
    ],
)
def test_of_an_answer_the_status_alone_matters(
    answer: Callable[[], Reply | Pieces], caplog: pytest.LogCaptureFixture
) -> None:
    assert told_by_a_stranger(answer, 31) == list(range(31))
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (lambda: dripping(b"HTTP/1.1 200 OK\r\nX-Slow: "), 3),
        (lambda: Reply(429, b"", {"Retry-After": "9999"}), 5),
        (lambda: Reply(302, b"", {"Location": "http://[::", "Set-Cookie": "a=b"}), 5),
        (lambda: iter([b"\x16\x03\x01 what"]), 5),
    ],
)
def test_who_never_answers_holds_up_the_next_alarm_for_so_long_only(
    answer: Callable[[], Reply | Pieces],
    times: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notify, "POST_SECONDS", 0.1)
    monkeypatch.setattr(notify, "TELL_SECONDS", 0.15)
    heard = told_by_a_stranger(answer, 5)
    assert set(heard) == set(range(5))
    assert len(heard) <= 5 * times
    assert len(warnings(caplog)) == 5
    assert all(not r.exc_info for r in caplog.records)


def test_nobody_at_the_address_is_logged_without_its_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alarms = Alarms(Settings(webhook=f"http://127.0.0.1:{free_port()}/secret"))
    alarms.send({})
    alarms.close(PATIENCE)
    (text,) = warnings(caplog)
    assert "not delivered to 127.0.0.1: [Errno 111] Connection refused" in text
    assert "secret" not in text


def test_what_is_no_json_is_logged_and_does_not_stop_the_next(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    alarms = Alarms(Settings(webhook=server.url))
    alarms.send({"n": object()})
    alarms.send({"n": 2})
    alarms.close(PATIENCE)
    assert [message for _, _, message in server.told] == [{"n": 2}]
    assert warnings(caplog) == ["an alarm could not be delivered"]


def test_the_oldest_are_dropped_when_too_many_wait(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "CAPACITY", 3)
    server.may_answer.clear()
    alarms = Alarms(Settings(webhook=server.url))
    for n in range(10):
        alarms.send({"n": n})
    server.may_answer.set()
    alarms.close(PATIENCE)
    numbers = [message["n"] for _, _, message in server.told]
    # One may have left the queue before the others came.
    assert numbers[-3:] == [7, 8, 9]
    assert len(numbers) in (3, 4)
    assert sum("dropped the oldest" in text for text in warnings(caplog)) == 10 - len(numbers)


def test_closing_gives_up_in_time_and_says_so(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.may_answer.clear()
    alarms = Alarms(Settings(webhook=server.url))
    alarms.send({})
    alarms.send({})
    alarms.close(0.0)
    assert any("gave up on" in text for text in warnings(caplog))
    server.may_answer.set()
    alarms.close(PATIENCE)
    assert len(server.told) == 2


# What different recipients take


def news(kind: str, device: str = "pump") -> dict[str, Any]:
    return {
        "device": device,
        "kind": kind,
        "number": 3,
        "text": "event 3 ended: flow <!channel> & 8.1 × threshold",
    }


def posted(server: Server, form: str, *messages: dict[str, Any], **settings: Any) -> None:
    alarms = Alarms(Settings(webhook=server.url, webhook_format=form, **settings))
    for message in messages:
        alarms.send(message)
    alarms.close(PATIENCE)


def test_slack_gets_a_text_in_which_nothing_is_taken_for_its_own(server: Server) -> None:
    posted(server, "slack", news("ended", "Lüfter"))
    [(kind, _, message)] = server.told
    assert kind == "application/json"
    said = "Lüfter: event 3 ended: flow &lt;!channel&gt; &amp; 8.1 × threshold"
    assert message == {"text": said}


@pytest.mark.parametrize(
    ("kind", "priority", "tag"),
    [
        ("opened", "high", "warning"),
        ("ended", "low", "white_check_mark"),
    ],
)
def test_ntfy_gets_a_text_with_a_title_and_how_loud(
    server: Server, kind: str, priority: str, tag: str
) -> None:
    posted(server, "ntfy", news(kind))
    [(form, _, text)], [headers] = server.told, server.headers
    assert (form, text) == ("text/plain; charset=utf-8", news(kind)["text"])
    assert headers["Title"] == f"pump: event 3 {kind}"
    assert (headers["Priority"], headers["Tags"]) == (priority, tag)


# A command


def test_a_command_gets_each_alarm_on_its_standard_input(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    alarms = Alarms(Settings(command=script(tmp_path, NOTE)))
    alarms.send({"where": "Lüfter", "n": 1})
    alarms.send({"n": 2})
    alarms.close(PATIENCE)
    assert received(tmp_path) == [{"where": "Lüfter", "n": 1}, {"n": 2}]
    assert warnings(caplog) == []
    assert capfd.readouterr().out == ""


def test_a_command_that_fails_is_logged_with_its_complaint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alarms = Alarms(Settings(command=script(tmp_path, "import sys; sys.exit('no siren')")))
    alarms.send({})
    alarms.close(PATIENCE)
    (text,) = warnings(caplog)
    assert "exit code 1" in text
    assert "no siren" in text


def test_a_command_that_hangs_is_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "COMMAND_SECONDS", 0.5)
    alarms = Alarms(Settings(command="sh -c 'sleep 600; true'"))
    alarms.send({})
    alarms.close(PATIENCE)
    assert any("stopped after 0.5 s" in text for text in warnings(caplog))


def test_both_are_told_and_one_that_is_down_does_not_keep_the_other_from_it(
    server: Server, tmp_path: Path
) -> None:
    server.may_answer.clear()
    alarms = Alarms(Settings(webhook=server.url, command=script(tmp_path, NOTE)))
    alarms.send({"n": 1})
    wait_until(lambda: bool(list(tmp_path.glob("told*")) and received(tmp_path)))
    assert received(tmp_path) == [{"n": 1}]
    assert server.told == []
    server.may_answer.set()
    alarms.close(PATIENCE)
    assert len(server.told) == 1


# Settings


@pytest.mark.parametrize("url", ["", "example.org/hook", "ftp://example.org", "https://"])
def test_what_is_no_web_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(BadInput, match="must be an address"):
        Webhook(url)


@pytest.mark.parametrize("text", ["", "no-such-program --loud", "say 'half a quote"])
def test_what_is_no_command_is_refused_at_once(text: str) -> None:
    with pytest.raises(BadInput, match="the alarm command"):
        Command(text)


def test_a_refused_recipient_leaves_no_thread_of_another() -> None:
    before = threading.active_count()
    with pytest.raises(BadInput, match="the alarm command"):
        Alarms(Settings(webhook="http://example.org", command="no-such-program --loud"))
    with pytest.raises(BadInput, match="must be an address"):
        Alarms(Settings(webhook="example.org/hook", command="true"))
    assert threading.active_count() == before
