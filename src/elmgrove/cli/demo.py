"""``elmgrove demo``: devices that learn one digit each, and then from each other."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import tracked
from elmgrove.cooperation import Contribution, Member
from elmgrove.detector import Detector
from elmgrove.extras import extra
from elmgrove.hidden import HiddenLayer, suggested_units

Array = NDArray[Any]
PIXELS = 64


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits, 8 × 8 pixels in [0, 1]; one row in five is for tests."""

    train: Array
    train_digit: Array
    test: Array
    test_digit: Array

    @classmethod
    def load(cls, seed: int) -> "Digits":
        bunch = extra("sklearn.datasets", "demo").load_digits()
        order = np.random.default_rng(seed).permutation(len(bunch.data))
        rows, digits = bunch.data[order] / 16.0, bunch.target[order]
        cut = len(rows) // 5
        return cls(rows[cut:], digits[cut:], rows[:cut], digits[:cut])


@dataclass(frozen=True)
class Result:
    """One device on the test rows: mean loss by kind of digit, and ROC-AUC."""

    own: float
    peers: float
    unknown: float
    auc: float


def demo(
    devices: Annotated[int, typer.Option(help="Devices; each learns one digit.", min=2, max=9)] = 4,
    units: Annotated[int, typer.Option(help="Hidden units.", min=1)] = suggested_units(PIXELS),
    seed: Annotated[int, typer.Option(help="Seed of the layer and the split.", min=0)] = 1,
    output: Annotated[Path, typer.Option(help="Folder for picture and numbers.")] = Path("demo"),
) -> None:
    """Show what cooperation does: devices learn a digit each, then from each other in one shot.

    Normal are the digits that some device has learned; the others are anomalies. Each device is
    tested on both before and after it has heard from its peers.

    Example: [bold]elmgrove demo --devices 3 --output demo[/]
    """
    extra("matplotlib", "demo")
    data, console = Digits.load(seed), Console()
    layer = HiddenLayer(PIXELS, units, seed=seed)
    members = [
        _trained(digit, layer, data) for digit in tracked(range(devices), "Devices learn alone")
    ]
    before = [_result(member, digit, devices, data) for digit, member in enumerate(members)]
    sent = [member.contribution().to_bytes() for member in members]
    for member in tracked(members, "Devices hear from each other"):
        for blob in sent:
            contribution = Contribution.from_bytes(blob)
            if contribution.origin != member.name:
                member.hear(contribution)
    after = [_result(member, digit, devices, data) for digit, member in enumerate(members)]
    console.print(_grid(before, after))
    difference = _difference_from_central(members, layer, devices, data)
    console.print(
        f"Each sent {len(sent[0]) / 1024:.0f} KiB once. All {devices} models equal one that was "
        f"trained on all rows in one place to {difference:.0e} (relative, output weights β)."
    )
    output.mkdir(parents=True, exist_ok=True)
    numbers = {"before": [asdict(r) for r in before], "after": [asdict(r) for r in after]}
    (output / "demo.json").write_text(json.dumps({**numbers, "difference": difference}, indent=2))
    _draw(before, after, output / "demo.png")
    console.print(f"Wrote {output / 'demo.png'} and {output / 'demo.json'}.")
    if not difference < 1e-9:
        raise typer.Exit(1)


def _trained(digit: int, layer: HiddenLayer, data: Digits) -> Member:
    member = Member(f"device-{digit}", Detector(layer))
    for row in data.train[data.train_digit == digit]:
        member.detector.learn_one(row)
    return member


def _result(member: Member, digit: int, devices: int, data: Digits) -> Result:
    scores, digits = member.detector.score_many(data.test), data.test_digit
    known = digits < devices
    fleet = known & (digits != digit)
    auc = extra("sklearn.metrics", "demo").roc_auc_score(~known, scores)
    own, peers, unknown = (float(scores[part].mean()) for part in (digits == digit, fleet, ~known))
    return Result(own, peers, unknown, float(auc))


def _difference_from_central(
    members: list[Member], layer: HiddenLayer, devices: int, data: Digits
) -> float:
    central = Detector(layer)
    central.learn_many(data.train[data.train_digit < devices])
    beta = central.model.beta
    return max(
        float(np.abs(member.detector.model.beta - beta).max() / np.abs(beta).max())
        for member in members
    )


def _grid(before: list[Result], after: list[Result]) -> Grid:
    grid = Grid(title="Mean loss on test rows, and ROC-AUC: before → after cooperation")
    for heading in ("device", "its digit", "peers' digits", "unknown digits", "ROC-AUC"):
        grid.add_column(heading, justify="right")
    for digit, (old, new) in enumerate(zip(before, after, strict=True)):
        pairs = zip(asdict(old).values(), asdict(new).values(), strict=True)
        cells = [f"{a:.3f} → {b:.3f}" for a, b in pairs]
        grid.add_row(f"device-{digit}", *cells)
    return grid


def _draw(before: list[Result], after: list[Result], path: Path) -> None:
    extra("matplotlib", "demo").use("Agg")
    figure, (left, right) = extra("matplotlib.pyplot", "demo").subplots(1, 2, figsize=(10, 4))
    names = [f"device-{digit}" for digit in range(len(before))]
    place = np.arange(len(names))
    for shift, label, results in ((-0.2, "before", before), (0.2, "after", after)):
        left.bar(place + shift, [r.peers for r in results], 0.4, label=label)
        right.bar(place + shift, [r.auc for r in results], 0.4, label=label)
    left.axhline(np.mean([r.unknown for r in after]), color="grey", linestyle="--")
    left.set_title("Loss on the peers' digits\n(dashed: on digits that nobody knows, after)")
    right.set_title("ROC-AUC: digits that somebody knows\nagainst unknown ones (dashed: chance)")
    right.axhline(0.5, color="grey", linestyle="--")
    right.set_ylim(0, 1)
    for axes, label in ((left, "mean loss"), (right, "ROC-AUC")):
        axes.set_xticks(place, names)
        axes.set_ylabel(label)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
