"""What the examples for Prometheus and Grafana ask for."""

import json
import re
from collections.abc import Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from support.places import ROOT

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


# Metrics as a scraper reads them: parsed by prometheus_client, and by the names in the docs.


PAGE = ROOT / "docs" / "metrics.md"


class Scraped:
    """The numbers of one scrape, by name and labels."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        """The value of a series; None where there is none."""
        return self._values.get((name, frozenset(labels.items())))

    def total(self, name: str) -> float:
        """The sum over all series of this name."""
        return sum(value for (found, _), value in self._values.items() if found == name)

    @property
    def shown(self) -> set[tuple[str, str, tuple[str, ...]]]:
        """Name, type and labels of each metric that has series, as the docs have them."""
        return {
            (_written(family.name, family.type), family.type, labels)
            for family in self.families
            for labels in {
                tuple(sorted(sample.labels.keys() - {"le", "quantile"}))
                for sample in family.samples
            }
        }


def _written(name: str, kind: str) -> str:
    return f"{name}_total" if kind == "counter" else name


def documented(heading: str) -> set[tuple[str, str, tuple[str, ...]]]:
    """Name, type and labels of each row of a table of docs/metrics.md."""
    text = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return set(_rows(text))


def _rows(text: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", text, re.MULTILINE):
        yield name, kind, tuple(sorted(re.findall(r"`(\w+)`", labels)))
