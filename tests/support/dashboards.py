"""What the examples for Prometheus and Grafana ask for."""

import json
import re
from collections.abc import Iterator
from typing import Any

from support.places import ROOT
from support.scraped import documented

ALERTS = ROOT / "examples" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "examples" / "grafana" / "elmgrove.json"


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard that show something."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def expressions() -> list[str]:
    """What the panels ask Prometheus for, as Grafana sends it."""
    places = {"$federation": ".*", "$agent": ".*", "$__rate_interval": "1m"}
    found = [target["expr"] for panel in panels() for target in panel["targets"]]
    for name, value in places.items():
        found = [expression.replace(name, value) for expression in found]
    return found


def names_in(text: str) -> set[str]:
    """The metrics that a text names, without what a histogram or a summary adds."""
    return set(re.findall(r"\b((?:elmgrove|process)_(?:agent_|server_)?\w+?)(?:_bucket)?\b", text))


def documented_names() -> set[str]:
    return set(_names())


def _names() -> Iterator[str]:
    for heading in ("The server", "The agent", "Of the process"):
        yield from (name for name, _, _ in documented(heading))
