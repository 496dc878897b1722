"""What a command of a paper is: a name, numbers from data, and a drawing of the numbers."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from elmgrove.storage import write
from elmgrove_papers import require_package
from elmgrove_papers.fleet import Meeting, in_memory
from elmgrove_papers.pictures import COLOURS

Numbers = dict[str, Any]
#: What random numbers follow from, unless a paper's settings have another.
SEED = 1
#: Trials for each in which networks are trained as well, unless told.
FEWER = 10


@dataclass(frozen=True)
class Run:
    """Where the data is, whether a small run will do, and how to show progress.

    ``trials`` is how often a figure that averages is run, ``networks`` in how many of these trials
    networks are trained, which takes far longer: a tenth, unless told. ``cache`` is the folder in
    which each trial's results are kept, so that an interrupted run goes on. Without one, nothing is
    kept. ``meeting`` is where devices meet that can meet on a server as well. ``note`` is told
    what a person should know of the data.
    """

    data: Path
    quick: bool = False
    track: Callable[[Sequence[Any], str], Iterable[Any]] = lambda items, text: items
    trials: int = 1
    networks: int | None = None
    cache: Path | None = None
    meeting: Meeting = in_memory
    note: Callable[[str], None] = lambda text: None

    @contextmanager
    def ticking(self, ticks: int, text: str) -> Iterator[Callable[[], None]]:
        """Shows progress of work that is no loop here: the work calls what it is given so often."""
        steps = (step for step in self.track(range(ticks), text))

        def tick() -> None:
            next(steps, None)

        # The bar is there from the beginning, and gone whatever happens.
        with closing(steps):
            tick()
            yield tick

    @property
    def size(self) -> dict[str, int]:
        """How many trials there are, and in how many of them networks are trained."""
        return {"trials": self.trials, "networks": self.networks or max(1, self.trials // FEWER)}

    def at_most(self, full: int, quick: int) -> int:
        """Chooses a size by how much time there is."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Figure:
    """One figure or table of a paper; ``numbers`` runs it, ``draw`` puts them on a canvas.

    ``repeats``: it averages over the trials of a run, and its devices meet where the run says.
    ``tuning`` is the figure of how the paper's hyperparameters are chosen, where it tuned them.
    """

    name: str
    title: str
    numbers: Callable[[Run], Numbers]
    draw: Callable[[Numbers, Any], None]
    size: tuple[float, float] = (10.0, 5.0)
    seed: int = SEED
    reads_data: bool = True
    repeats: bool = False
    tuning: "Figure | None" = None

    def made(self, run: Run) -> Numbers:
        """Runs the figure, and adds ``made``: when, in how many seconds, where, with what seed.

        Trials that were found in the cache cost no time: the seconds are this run's.
        """
        # Said before minutes of work are lost.
        require_package("matplotlib")
        date, started = datetime.now(UTC), time.perf_counter()
        found = self.numbers(run)
        return found | {
            "made": {
                "date": date.isoformat(timespec="seconds"),
                "seconds": round(time.perf_counter() - started, 1),
                "machine": _machine(),
                "software": _software(),
                "seed": self.seed,
                "quick": run.quick,
                **(run.size if self.repeats else {}),
            }
        }

    def is_in(self, output: Path, run: Run) -> bool:
        """Says whether the folder has this figure already, from a run of the same size."""
        try:
            made = json.loads((output / f"{self.name}.json").read_bytes())["made"]
            size = {key: made[key] for key in run.size if key in made}
            return bool(made["quick"] == run.quick and size == (run.size if self.repeats else {}))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def write(self, found: Numbers, output: Path) -> list[Path]:
        """Writes NAME.png and NAME.json to a folder that is made if need be; the numbers last."""
        require_package("matplotlib").use("Agg")
        output.mkdir(parents=True, exist_ok=True)
        paths = [output / f"{self.name}.{ending}" for ending in ("png", "json")]
        pyplot, cycler = require_package("matplotlib.pyplot"), require_package("cycler")
        with pyplot.rc_context({"axes.prop_cycle": cycler.cycler(color=COLOURS)}):
            canvas = pyplot.figure(figsize=self.size, layout="constrained")
            self.draw({key: value for key, value in found.items() if key != "made"}, canvas)
            small = " (quick run)" if found["made"]["quick"] else ""
            canvas.suptitle(f"{self.title}{small}", fontsize=10)
            canvas.savefig(paths[0], dpi=120)
            pyplot.close(canvas)
        write(paths[1], json.dumps(found, indent=2).encode())
        return paths


def _machine() -> str:
    """The processor as Linux names it, else as Python does."""
    names = Path("/proc/cpuinfo")
    lines = names.read_text().splitlines() if names.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{named[0] if named else platform.machine()}, {os.cpu_count()} cores"


def _software() -> str:
    """The versions of what computes; PyTorch may not be there."""
    found = [f"Python {platform.python_version()}"]
    for name in ("elmgrove", "numpy", "scipy", "torch"):
        with suppress(PackageNotFoundError):  # without the extra there is no torch
            found.append(f"{name} {version(name)}")
    return ", ".join(found)
