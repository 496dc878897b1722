"""The demo keeps what it promises."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "elmgrove"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that one run of the demo wrote, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "made" / "by the demo"
    ran = subprocess.run(
        [COMMAND, "demo", "--output", folder], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return folder, ran.stdout


def test_every_device_tells_strange_digits_better_after_cooperating(
    demo: tuple[Path, str],
) -> None:
    numbers = json.loads((demo[0] / "demo.json").read_text())
    assert len(numbers["before"]) == len(numbers["after"]) == 4
    for before, after in zip(numbers["before"], numbers["after"], strict=True):
        assert 0 < before["auc"] < after["auc"] <= 1
        assert after["peers"] < before["peers"]
        assert after["peers"] < after["unknown"]


def test_the_merged_models_equal_central_training(demo: tuple[Path, str]) -> None:
    assert 0 <= json.loads((demo[0] / "demo.json").read_text())["difference"] < 1e-9


def test_it_prints_what_it_wrote(demo: tuple[Path, str]) -> None:
    folder, text = demo
    numbers = json.loads((folder / "demo.json").read_text())
    for device, (before, after) in enumerate(zip(numbers["before"], numbers["after"], strict=True)):
        row = next(line for line in text.splitlines() if f"device-{device} " in line)
        assert f"{before['auc']:.3f} → {after['auc']:.3f}" in row
    assert re.search(r"Each sent \d+ KiB at a time", text)


def test_it_draws_a_picture(demo: tuple[Path, str]) -> None:
    picture = (demo[0] / "demo.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.endswith(b"IEND\xaeB`\x82")
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert 800 <= width <= 3000
    assert 300 <= height <= 2000
    assert 10_000 < len(picture) < 1_000_000
