"""What docs/mqtt.md says to do is what makes a fleet, on the broker of examples/mosquitto."""

import re
import shutil
from pathlib import Path

import numpy as np
import trustme

from elmgrove.exchange.broker import MOST_PAYLOAD
from elmgrove.exchange.mqtt import MOST_KEPT
from support.commands import Elmgrove
from support.factories import member_in, write_rows
from support.mosquitto import example_broker
from support.pages import WRITE, Step, blocks_of, play, steps_of
from support.places import ROOT
from support.serving import Authority
from support.shells import Shell

PAGE = (ROOT / "docs" / "mqtt.md").read_text()
USERS = {user: f"the-password-of-{user}" for user in ("admin", "viewer", "fan-1", "fan-2")}


#: What it says of a fleet, from the broker on.
FLEET = PAGE.partition("\n## A fleet on one broker\n")[2].partition("\n## ")[0]


def test_the_page_makes_a_fleet(mosquitto: None, tmp_path: Path) -> None:
    settings = next(one.text for one in blocks_of(FLEET) if one.language == "toml")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shell = Shell(tmp_path)
    with example_broker(tmp_path, USERS, Authority(tmp_path, trustme.CA())) as broker:
        here = f"127.0.0.1:{broker.port}"
        first = settings.replace("broker.example", here)
        (tmp_path / "device.toml").write_text(first)
        (tmp_path / "other.toml").write_text(first.replace("fan-1", "fan-2"))

        def take(step: Step) -> str:
            command = step.source.replace("broker.example", here)
            printed = shell.run(command)
            if "device.toml" in command:
                # The page shows one device; another has its own settings and password.
                shell.run(f"export ELMGROVE_DEVICE_MQTT_PASSWORD={USERS['fan-2']}")
                shell.run(command.replace("device.toml", "other.toml"))
            return printed.replace(here, "broker.example")

        played = play(FLEET, take)
        look = next(
            one.source for one in steps_of(FLEET) if one.source.startswith("elmgrove fleet ")
        )
        shell.run(f"export ELMGROVE_MQTT_PASSWORD={USERS['fan-1']}")
        leave = re.search(r"`(elmgrove device leave [^`]+)`", FLEET)
        assert leave is not None
        assert "fan-1 left" in shell.run(leave[1].replace("broker.example", here))
        left = shell.run(look.replace("broker.example", here))
    second = member_in(tmp_path / "fan-2.elm")
    assert second.merged is not None
    assert second.merged.devices == 1
    assert "1 device" in left
    assert "fan-1" not in left
    if WRITE:
        (ROOT / "docs" / "mqtt.md").write_text(PAGE.replace(FLEET, played))


def test_the_limits_of_the_page_are_those() -> None:
    assert f"{MOST_PAYLOAD:,} bytes" in PAGE
    assert f"keeps {MOST_KEPT >> 20} MB of entries" in PAGE


def test_a_password_in_the_url_is_refused_by_the_command(
    tmp_path: Path, elmgrove: Elmgrove
) -> None:
    write_rows(tmp_path / "sample.csv", np.random.default_rng(1).normal(size=(100, 3)), list("abc"))
    made = ("federation", "create", "fans", "--data", "sample.csv")
    ran = elmgrove(*made, "--exchange", "mqtt://admin:secret@127.0.0.1/fans")
    assert ran.code == 1
    assert "password" in ran.err
    assert "secret" not in ran.err
