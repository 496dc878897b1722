"""What a command of a paper is: a name, numbers from data, and a drawing of the numbers."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elmgrove.extras import extra

T = TypeVar("T")
Numbers = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """Where the data is, whether a small run will do, and how to show progress."""

    data: Path
    quick: bool = False
    track: Callable[[Sequence[Any], str], Iterable[Any]] = lambda items, text: items

    def at_most(self, full: int, quick: int) -> int:
        """A size that depends on how much time there is."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Figure:
    """One figure or table of a paper; ``numbers`` runs it, ``draw`` puts them on a canvas."""

    name: str
    title: str
    numbers: Callable[[Run], Numbers]
    draw: Callable[[Numbers, Any], None]
    size: tuple[float, float] = (10.0, 5.0)

    def write(self, found: Numbers, output: Path) -> list[Path]:
        """NAME.json and NAME.png in a folder that is made if need be."""
        extra("matplotlib", "papers").use("Agg")
        output.mkdir(parents=True, exist_ok=True)
        paths = [output / f"{self.name}.{kind}" for kind in ("json", "png")]
        paths[0].write_text(json.dumps(found, indent=2))
        pyplot = extra("matplotlib.pyplot", "papers")
        canvas = pyplot.figure(figsize=self.size, layout="constrained")
        self.draw(found, canvas)
        canvas.savefig(paths[1], dpi=120)
        pyplot.close(canvas)
        return paths
