"""The demo keeps what it promises."""

import json
import re
import signal
from pathlib import Path

import pytest

from support.agents import sessions
from support.demo import Demo, started
from support.serving import wait_until


def test_every_device_tells_strange_digits_better_after_cooperating(
    demo: Demo,
) -> None:
    numbers = json.loads((demo[0] / "demo.json").read_text())
    assert len(numbers["before"]) == len(numbers["after"]) == 4
    for before, after in zip(numbers["before"], numbers["after"], strict=True):
        assert 0 < before["auc"] < after["auc"] <= 1
        assert after["peers"] < before["peers"]
        assert after["peers"] < after["unknown"]


def test_the_merged_models_equal_central_training(demo: Demo) -> None:
    assert 0 <= json.loads((demo[0] / "demo.json").read_text())["difference"] < 1e-9


def test_a_device_that_left_leaves_no_trace(demo: Demo) -> None:
    folder, text = demo
    numbers = json.loads((folder / "demo.json").read_text())
    assert 0 <= numbers["difference after leaving"] < 1e-9
    table = text[text.index("Mean loss on the digit of device-3") :]
    for device in range(3):
        row = next(line for line in table.splitlines() if f"device-{device} " in line)
        alone, with_it, after = map(float, re.findall(r"\d+\.\d+", row))
        assert with_it < after
        assert with_it < alone
    assert "device-3 │" not in table, "a device that left is not in the table"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_its_processes(tmp_path: Path, number: int) -> None:
    with started(tmp_path / "made" / "demo") as ran:
        wait_until(lambda: bool(list(tmp_path.glob("elmgrove-demo-*/device-*.log"))))
        assert ran.pid in sessions()
        ran.send_signal(number)
        _, err = ran.communicate(timeout=300)
    assert ran.returncode not in (0, -signal.SIGKILL)
    assert "Traceback" not in err
    assert ran.pid not in sessions()
    assert not list(tmp_path.glob("elmgrove-demo-*"))


def test_it_prints_what_it_wrote(demo: Demo) -> None:
    folder, text = demo
    numbers = json.loads((folder / "demo.json").read_text())
    for device, (before, after) in enumerate(zip(numbers["before"], numbers["after"], strict=True)):
        row = next(line for line in text.splitlines() if f"device-{device} " in line)
        assert f"{before['auc']:.3f} → {after['auc']:.3f}" in row
    assert re.search(r"Each sent \d+ KiB at a time", text)


def test_it_draws_a_picture(demo: Demo) -> None:
    picture = (demo[0] / "demo.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.endswith(b"IEND\xaeB`\x82")
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert 800 <= width <= 3000
    assert 300 <= height <= 2000
    assert 10_000 < len(picture) < 1_000_000
