"""The settings of a device: one table for the file, the environment and the flags."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest

from elmgrove.cli.app import main
from elmgrove.cli.device import variable_of
from elmgrove.device.settings import Settings, read_settings, type_of
from elmgrove.errors import BadInput
from support.agents import flags

NAMES = [one.name for one in fields(Settings)]
#: What to say in the file, in the environment and by flag; values that not every text will do for.
CHOICES: dict[str, tuple[Any, Any, Any]] = {
    "only": ("anomalies", "alarms", "events"),
    "webhook_format": ("slack", "ntfy", "json"),
    "patterns": ("auto", "3", "2"),
    "window": ("7", "auto", "1"),
    "on_change": ("adapt", "relearn", "ask"),
    "server_commands": ("none", "any", "bounded"),
    "reports": ("none", "rows", "figures"),
    "alarm": ("1/1", "2/4/9", "3/5"),
    "spectrum": ("2000:256", "16000:1024:64:mel", "200:32:8"),
    "measurement": ("pump", "cpu,cpu=cpu-total", "my\\ pump"),
    "decimal": (",", ".", ","),
    "encoding": ("latin-1", "utf-16", "cp1252"),
    "missing": ("hold", "refuse", "hold"),
    "metrics": ("127.0.0.1:1", "localhost:2", "[::1]:3"),
    "log_format": ("json", "text", "json"),
    "mqtt": ("mqtt://host/a", "mqtts://fan@host:1/a/b", "mqtt://[::1]/a"),
}
BY_TYPE: dict[Any, tuple[Any, Any, Any]] = {
    str: ("from the file", "from the environment", "by flag"),
    int: (11, 12, 13),
    float: (0.25, 0.5, 0.75),
    list[str]: (["file"], ["environment", "too"], ["by flag", "twice"]),
}


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Settings]:
    """The settings that ``elmgrove device run`` comes to; the agent itself is not run."""
    monkeypatch.chdir(tmp_path)
    for variable in [one for one in os.environ if one.startswith("ELMGROVE_")]:
        monkeypatch.delenv(variable)
    heard: list[Settings] = []

    class Listening:
        def __init__(self, settings: Settings) -> None:
            heard.append(settings)

        def run(self) -> None:
            pass

        def stop(self) -> None:
            pass

    monkeypatch.setattr("elmgrove.cli.device.Agent", Listening)
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def run(*words: str) -> Settings:
        monkeypatch.setattr(sys, "argv", ["elmgrove", "device", "run", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return heard.pop()

    return run


def choices(name: str) -> tuple[Any, Any, Any]:
    if type_of(name) is bool:
        usual = getattr(Settings(), name)
        return not usual, usual, not usual
    return CHOICES.get(name) or BY_TYPE[type_of(name)]


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(value) if isinstance(value, list) else str(value)


@pytest.mark.parametrize("name", NAMES)
def test_flag_over_environment_over_file_over_default(
    settled: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    in_file, in_environment, by_flag = choices(name)
    plain = vars(Settings())
    Path("device.toml").write_text(f"{name} = {json.dumps(in_file)}\n")
    assert asdict(settled("--config", "device.toml")) == plain | {name: in_file}
    monkeypatch.setenv(variable_of(name), as_text(in_environment))
    assert asdict(settled("--config", "device.toml")) == plain | {name: in_environment}
    flag = flags({name: by_flag})
    made = settled("--config", "device.toml", *flag)
    assert asdict(made) == plain | {name: by_flag}
    assert made.given == {name}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("sorce = 'x.csv'", "no setting is called 'sorce'; did you mean source? "),
        ("qqq = 1", "no setting is called 'qqq'; 'device run --help-all' lists all"),
        ("[device]\nsource = 'x.csv'", "settings stand above any [device]"),
        ("save_rows = '10'", "save_rows = '10': expected `int`, got `str`"),
        ("save_rows = 10.5", "save_rows = 10.5: expected `int`, got `float`"),
        ("follow = 1", "follow = 1: expected `bool`, got `int`"),
        ("save_rows = true", "save_rows = True: expected `int`, got `bool`"),
        ("columns = 'a'", "columns = 'a': expected `array`, got `str`"),
        ("drop = ['a', 1]", "drop = ['a', 1]: expected `str`, got `int` - at `$[1]`"),
        ("save_seconds = 'often'", "save_seconds = 'often': expected `float`, got `str`"),
        ("source = x.csv", "device.toml: "),
        ("source = 'a'\nsource = 'b'", "device.toml: "),
        ("only = 'some'", "only: all, anomalies, alarms or events, not 'some'"),
        ("save_rows = 0", "save_rows must be above 0"),
        ("save_seconds = nan", "save_seconds must be above 0"),
        ("sync_seconds = -1", "sync_seconds can't be negative"),
        ("sync_seconds = nan", "sync_seconds can't be negative"),
        ("alarm = '3'", "alarm: K/N or K/N/COOLDOWN, like 3/5 or 3/5/60, not '3'"),
        ("alarm = '5/3'", "an alarm needs 1 ≤ k ≤ n, not k = 5 and n = 3"),
        ("metrics = '9190'", "metrics: host:port"),
        ("metrics = '127.0.0.1:http'", "metrics: host:port"),
        ("metrics = '127.0.0.1:99999'", "metrics: host:port"),
    ],
)
def test_a_bad_setting_is_one_clear_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    content: str,
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("device.toml").write_text(content)
    monkeypatch.setattr(sys, "argv", ["elmgrove", "device", "run", "--config", "device.toml"])
    with pytest.raises(SystemExit) as ended:
        main()
    (line,) = capfd.readouterr().err.splitlines()
    assert ended.value.code == 1
    assert line.startswith("Error: ")
    assert complaint in line
    assert [path.name for path in Path().iterdir()] == ["device.toml"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mqtt": "http://host/told"}, "is no broker's URL"),
        ({"mqtt": "mqtt://fan:secret@host/told"}, "a password does not belong into a URL"),
        ({"mqtt": "mqtt://host/told/#"}, "mqtt: one publishes under a topic without"),
        ({"source": "mqtt://fan:secret@host/rows"}, "a password does not belong into a URL"),
        ({"source": "mqtt://host/"}, "name the topics of the rows"),
        ({"source": "mqtt://host/a#"}, "# stands alone"),
        ({"source": "mqtt://host/a", "pattern": "b+/c"}, r"\+ stands alone"),
        ({"mqtt_seconds": -1.0}, "mqtt_seconds can't be negative"),
    ],
)
def test_a_broker_that_can_be_none_is_refused_at_once(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said) as error:
        Settings(**settings)
    assert "secret" not in str(error.value)


def test_the_token_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "fans.token"
    path.write_text("elm-join-abc\n")
    assert read_settings(None, {"token": f"@{path}"}).token == "elm-join-abc"
    config = tmp_path / "device.toml"
    config.write_text(f'token = "@{path}"\n')
    assert read_settings(config, {}).token == "elm-join-abc"
    path.unlink()
    with pytest.raises(BadInput, match=r"token: .*fans.token can't be read"):
        read_settings(config, {})
