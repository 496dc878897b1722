"""The examples work; those that the README and the pages show are run by their tests."""

from pathlib import Path

import pytest

from elmgrove.device.settings import Settings, read_settings
from elmgrove.federation.selection import Everyone
from support.metrics import ALERTS, DASHBOARD, documented_names, expressions, names_in, panels
from support.places import ROOT

EXAMPLES = ROOT / "examples"
README = (ROOT / "README.md").read_text()
PAGES = README + "".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))


def test_the_example_of_a_configuration_is_one() -> None:
    settings = read_settings(EXAMPLES / "device.toml", {})
    assert settings != Settings()
    assert settings.follow
    assert settings.exchange.endswith("/fans")
    assert settings.rule == Everyone()
    assert not settings.token


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_a_page_runs_or_shows_each_program(path: Path) -> None:
    program = path.read_text().split('"""\n\n', 1)[1]
    assert f"python examples/{path.name}" in PAGES or program in README


def test_alerts_and_dashboard_use_documented_names_only() -> None:
    for text in (ALERTS.read_text(), DASHBOARD.read_text()):
        used = {name for name in names_in(text) if name.count("_") > 1}
        assert len(used) > 10
        assert used <= documented_names()
    assert {name for one in expressions() for name in names_in(one)} <= documented_names()


def test_each_panel_says_in_one_sentence_what_it_shows_and_has_a_place_of_its_own() -> None:
    shown = panels()
    assert len({panel["id"] for panel in shown}) == len(shown) > 10
    assert all(panel["description"].count(". ") == 0 for panel in shown)
    assert all(panel["description"].endswith(".") for panel in shown)
    taken = set[tuple[int, int]]()
    for panel in shown:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
