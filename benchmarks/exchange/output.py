"""Numbers on the screen and in a file, with when and where they were taken."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.machine import about

FOLDER = Path("bench")
progress = Console(stderr=True)
_BUSY = 0.5


class Output:
    """Tables as they come, and one file at the end. Begin it before anything is measured."""

    def __init__(self, name: str) -> None:
        self._path = FOLDER / f"{name}.json"
        self._about = about()
        self._out = Console()
        if not self._out.is_terminal:
            self._out.width = 120

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Prints a table; the first column holds names, the others numbers."""
        table = Table(
            title=title or None, title_justify="left", box=SIMPLE_HEAD, title_style="bold"
        )
        for column in columns:
            table.add_column(column, justify="right" if table.columns else "left")
        for row in rows:
            table.add_row(*map(shown, row))
        self._out.print(table)

    def say(self, text: str) -> None:
        """Prints a sentence."""
        self._out.print(text, highlight=False)

    def write(self, measured: dict[str, Any]) -> None:
        """Writes all numbers as JSON, and says on the screen where and when they were taken."""
        here = self._about
        self._path.parent.mkdir(exist_ok=True)
        text = json.dumps(here | measured, indent=1, ensure_ascii=False)
        self._path.write_text(text + "\n", encoding="utf-8")
        self.say(
            f"{here['date']}, {here['processor']}, {here['cores']} cores, {here['system']}, "
            f"Python {here['python']}, elmgrove {here['packages']['elmgrove']}"
        )
        if here["load before"] > _BUSY:
            self.say(f"The machine was not idle: load {here['load before']} before the start.")
        self.say(f"All numbers: {self._path}")


def shown(value: object) -> str:
    """Numbers with three digits that mean something."""
    if not isinstance(value, float):
        return str(value)
    if value != 0.0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.1e}"
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 3}f}"
