"""The examples work; those that the README shows are run by its tests."""

from pathlib import Path

import pytest

from elmgrove.device.settings import Settings
from elmgrove.device.settings_file import read_settings
from elmgrove.federation import Everyone
from support.places import ROOT

EXAMPLES = ROOT / "examples"
README = (EXAMPLES.parent / "README.md").read_text()


def test_the_example_of_a_configuration_is_one() -> None:
    settings = read_settings(EXAMPLES / "device.toml", {})
    assert settings != Settings()
    assert settings.follow
    assert settings.exchange.endswith("/fans")
    assert settings.rule == Everyone()
    assert not settings.token


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_the_readme_runs_or_shows_each_program(path: Path) -> None:
    program = path.read_text().split('"""\n\n', 1)[1]
    assert f"python examples/{path.name}" in README or program in README
