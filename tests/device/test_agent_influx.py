"""An agent between two programs that speak line protocol, as Telegraf's execd processor is."""

import signal
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from line_protocol_parser import parse_line

from support.agents import COMMAND, PATIENCE, Start, learned
from support.factories import detector_in

pytestmark = pytest.mark.usefixtures("own_folder")
EXAMPLES = Path(__file__).parents[2] / "examples"
BEGIN = 1714564800000000123
RUN = ["device", "run", "--source", "-", "--measurement", "machine"]
QUICK = ["--state", "fan.elm", "--start-rows", "50", "--watch-now", "--rate", "0.01"]


def metrics(first: int, last: int, shift: float = 0.0) -> list[str]:
    """Lines as Telegraf writes them: two measurements, one of them with all kinds of fields."""
    lines = list[str]()
    for row in range(first, last):
        a, b = np.random.default_rng(row).normal(size=2).tolist()
        time = BEGIN + row * 1_000_000_000
        lines.append(f'cpu,host=a idle={90 + a!r},note="a \\"b\\", c" {time}\n')
        tags, on = "machine,host=a,site=North\\ hall", "true" if row % 2 else "false"
        fields = f"temp={20 + a + shift!r},power={5 + 0.1 * a + 0.01 * b!r},speed={1500 + row % 7}i"
        lines.append(f"{tags} {fields},on={on} {time}\n")
    return lines


@contextmanager
def agent(*more: str) -> Iterator[subprocess.Popen[str]]:
    with (
        Path("log").open("a") as log,
        subprocess.Popen(
            [COMMAND, *RUN, *QUICK, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        yield process


Worked = Callable[..., list[str]]


@pytest.fixture(name="worked")
def worked_fixture(start: Start) -> Worked:
    """What an agent writes that gets all lines at once, and ends with them."""

    def worked(lines: list[str], *more: str) -> list[str]:
        ran = start(*RUN, *QUICK, *more, label="log", stdin=subprocess.PIPE)
        assert ran.told("".join(lines).encode()) == 0, ran.log
        return ran.out.splitlines(keepends=True)

    return worked


def points(lines: list[str], measurement: str = "elmgrove") -> list[dict[str, Any]]:
    """The points of a measurement, as an independent parser finds them among lines."""
    found = [parse_line(line.rstrip("\n")) for line in lines if line.strip()]
    return [one for one in found if one is not None and one["measurement"] == measurement]


def test_every_line_goes_on_unchanged_and_each_row_has_its_verdict_behind_it(
    worked: Worked,
) -> None:
    lines = ["# a remark\n", "\n", *metrics(0, 300), "no line protocol\n", *metrics(300, 400, 9.0)]
    out = worked(lines)
    assert [line for line in out if not line.startswith("elmgrove")] == lines
    verdicts = points([line for line in out if line.startswith("elmgrove")])
    assert [one["time"] for one in verdicts] == [BEGIN + row * 1_000_000_000 for row in range(400)]
    assert all(one["tags"] == {"host": "a", "site": "North hall"} for one in verdicts)
    fields = [one["fields"] for one in verdicts]
    assert {type(one["score"]) for one in fields} == {float}
    assert sum(one["anomalous"] for one in fields[100:300]) < 20
    assert all(one["anomalous"] and one["anomalous"] for one in fields[300:])
    assert any(one["alarm"] for one in fields[300:310])
    assert fields[-1]["event"] == 1
    assert '"feature": "temp"' in fields[-1]["causes"]
    # From the 51st row on, a verdict is right behind its row.
    assert out[-2:] == [lines[-1], out[-1]]
    assert out[-1].startswith("elmgrove,host=a,site=North\\ hall score=")
    assert "standard input, line 603 is left out: not InfluxDB" in Path("log.log").read_text()
    assert detector_in("fan.elm").basis.features == (*("temp", "power", "speed", "on"),)


def test_a_line_is_answered_at_once() -> None:
    with agent() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for place, line in enumerate(metrics(0, 80)):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == line
            if place % 2 and place // 2 == 49:
                assert len(points([process.stdout.readline() for _ in range(50)])) == 50
            elif place % 2 and place // 2 > 49:
                assert len(points([process.stdout.readline()])) == 1
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_a_killed_agent_goes_on_from_what_it_saved_and_loses_no_line_that_it_took(
    worked: Worked,
) -> None:
    lines, rows = metrics(0, 200), 200
    with agent("--save-rows", "1") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(lines))
        process.stdin.flush()
        out = [process.stdout.readline() for _ in range(len(lines) + rows)]
        # A row is saved before the next one is read.
        process.stdin.write("cpu idle=1 5\n")
        process.stdin.flush()
        out.append(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE) == -signal.SIGKILL
    assert [line for line in out if not line.startswith("elmgrove")] == [*lines, "cpu idle=1 5\n"]
    assert len(points(out)) == rows
    before = learned(Path("fan.elm"))
    assert before == sum(one["fields"]["learned"] for one in points(out))
    # The state remembers the format: the measurement is a flag here, as Telegraf starts it again.
    again = worked(metrics(200, 210))
    assert len(points(again)) == 10
    assert learned(Path("fan.elm")) == before + sum(
        one["fields"]["learned"] for one in points(again)
    )


def test_events_are_points_as_well(worked: Worked) -> None:
    worked(metrics(0, 300))
    out = worked(metrics(300, 330, 9.0), "--only", "events")
    events = points(out, "elmgrove_event")
    assert events[0]["fields"]["kind"] == "opened"
    assert "temp" in events[0]["fields"]["text"]
    assert events[0]["tags"] == {"host": "a", "site": "North hall"}
    assert points(out) == []


def test_the_example_runs_as_telegraf_starts_it() -> None:
    conf = tomllib.loads((EXAMPLES / "telegraf" / "telegraf.conf").read_text())
    (processor,) = conf["processors"]["execd"]
    command = [COMMAND, *processor["command"][1:], "--state", "cpu.elm", "--start-rows", "20"]
    lines = [
        f"cpu,cpu={cpu},host=a usage_idle={90 + row % 5},usage_user={10 - row % 5} {BEGIN + row}\n"
        for row in range(30)
        for cpu in ("cpu-total", "cpu0")
    ]
    done = subprocess.run(
        command, input="".join(lines), capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    out = done.stdout.splitlines(keepends=True)
    assert [line for line in out if not line.startswith("elmgrove")] == lines
    verdicts = points(out)
    assert [one["tags"]["cpu"] for one in verdicts] == ["cpu-total"] * 30
