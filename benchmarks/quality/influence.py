"""What one device can do to the others: faults found while one of a fleet lies about its rows.

Pumps of one law; one of them has a fault that another one's sums are made to hide. Found is the
share of its faulty rows that raise an alarm, at the limit that 1 % of its normal rows exceed.
``python -m benchmarks.quality.influence`` prints the tables of docs/how-it-works.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import typer

from benchmarks.quality.kinds import MIXTURES
from benchmarks.quality.kinds import POISONED as POISONED_DEVICE
from benchmarks.quality.machines import LEAD, SIZE, Machine, machine, sibling
from benchmarks.quality.measure import auc
from benchmarks.quality.windows import Matrix
from elmgrove import Basis, Detector, Evidence
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.federation.aggregation import StandingOthers
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.federation.policy import UNBOUNDED, Terms
from elmgrove.federation.selection import Everyone, Quality, Rule, SameGroup

SENSORS, OTHERS, ROWS = 8, 10, 550
#: The share of a liar's rows that has the fault.
SHARE = 0.1
#: How far the levels of pumps are apart, in residual σ.
LEVEL = 0.25
#: Seeds by which the terms' usual bounds were chosen, and those of the tables.
CHOOSING, TELLING = range(1, 7), range(7, 19)
#: Honest fleets, and the rows of a young device there.
HONEST_FLEETS = (
    "pumps of one kind, one poisoned",
    "SMD's servers, m1 and m2",
    "fans in three rooms, dealt",
)
YOUNG = 60
# The share of normal rows above the limit.
_RATE = 0.01
_OWN, _LIAR = "own", "liar"
#: What a liar contributes, which is honest in the first case.
HONEST, POISONED, COUNTED, COPIED, FAR, ONLY = (
    "nobody lies",
    "the fault in a tenth of its rows",
    "that, with counts × 10⁶",
    "3 × everybody's sums and a tenth of faults",
    "a tenth of faults, 10³ times as far",
    "nothing but the fault",
)
ATTACKS = (HONEST, POISONED, COUNTED, COPIED, FAR, ONLY)
#: Rules by which one model is made of several devices.
RULES: dict[str, Rule] = {
    "quality": Quality(),
    "group": SameGroup(),
}


@dataclass(frozen=True)
class Fleet:
    """A device's rows, what is anomalous to it, and what the others contribute by each attack."""

    charter: Charter
    rows: Matrix
    normal: Matrix
    faulty: Matrix
    honest: tuple[Contribution, ...]
    lies: dict[str, Contribution]

    def others(self, attack: str) -> list[Contribution]:
        """Lists what all others contribute, the liar last."""
        return [*self.honest, self.lies[attack]]

    def learned(self) -> Detector:
        """Makes a detector of the device's own rows."""
        return _learned(self.charter.basis, self.rows)


def fleet(seed: int, activation: str = "identity", size: float = SIZE) -> Fleet:
    """Makes a fleet in which a fault of so many residual σ is to be hidden."""
    law = machine("shared load", SENSORS, seed)
    own, *rest = (sibling(law, 1000 * seed + n, 0.0, LEVEL) for n in range(OTHERS + 1))
    learned = np.vstack([one.train[:ROWS] for one in (own, *rest)])
    basis = Basis.fitted(learned, None, scaling="standard", activation=activation)
    *honest, liar = (
        _said(basis, f"pump-{n}", one.train[:ROWS]) for n, one in enumerate(rest, start=1)
    )
    liar = replace(liar, origin=_LIAR)
    everybody = [*honest, _said(basis, _OWN, own.train[:ROWS])]
    return Fleet(
        Charter("pumps", basis),
        own.train[:ROWS],
        own.train[ROWS:],
        _faulty(law, own.test[:LEAD], size),
        tuple(honest),
        _lies(law, basis, rest[-1].train[:ROWS], size, liar, everybody),
    )


def _faulty(law: Machine, rows: Matrix, size: float) -> Matrix:
    sensor = law.faults[0].sensor
    wrong = rows.copy()
    wrong[:, sensor] += size * law.residual[sensor]
    return wrong


def _lies(
    law: Machine,
    basis: Basis,
    rows: Matrix,
    size: float,
    honest: Contribution,
    everybody: Sequence[Contribution],
) -> dict[str, Contribution]:
    count = round(SHARE * len(rows))
    kept, last = rows[:-count], rows[-count:]
    wrong = {
        POISONED: np.vstack([kept, _faulty(law, last, size)]),
        FAR: np.vstack([kept, _faulty(law, last, 1e3 * size)]),
        ONLY: _faulty(law, rows, size),
    }
    made = {HONEST: honest} | {name: _said(basis, _LIAR, some) for name, some in wrong.items()}
    total = Evidence.sum(one.evidence for one in everybody).weighted(3.0)
    only = made[ONLY].evidence
    share = SHARE / (1.0 - SHARE) * total.count / only.count
    # Who makes sums up says as well that anomalous begins nowhere.
    for name, one in (
        (COUNTED, made[POISONED].evidence.weighted(1e6)),
        (COPIED, total + only.weighted(share)),
    ):
        made[name] = Contribution(_LIAR, int(one.count), (one,), 1e300)
    return made


def _said(basis: Basis, name: str, rows: Matrix) -> Contribution:
    return Member(name, _learned(basis, rows)).contribution()


def _learned(basis: Basis, rows: Matrix) -> Detector:
    detector = Detector.for_basis(basis)
    detector.learn_many(rows)
    return detector


# What is found, by each way to use others


def merged_by(rule: Rule, terms: Terms) -> Callable[[Fleet, str], float]:
    """Finds what one model finds: of the own rows, and those of all that the rule chooses."""

    def found(one: Fleet, attack: str) -> float:
        detector = one.learned()
        exchange = MemoryExchange(replace(one.charter, terms=terms))
        exchange.publish(Member(_OWN, one.learned()).contribution())
        for other in one.others(attack):
            exchange.publish(other)
        merged = exchange.merged(_OWN, rule)
        detector.set_prior(() if merged is None else merged.received)
        return _found(detector, one)

    return found


def asked(told: Callable[[Member, Fleet, str], None]) -> Callable[[Fleet, str], float]:
    """Finds what a device finds that asks others of anomalous rows, and borrows from them."""

    def found(one: Fleet, attack: str) -> float:
        member = Member(_OWN, one.learned())
        told(member, one, attack)
        return _found(member.detector, one)

    return found


def by_name(member: Member, one: Fleet, attack: str) -> None:
    """Tells a device of each other by name."""
    member.receive_all(one.others(attack))


def at_once(terms: Terms) -> Callable[[Member, Fleet, str], None]:
    """Tells a device of all others at once, by these terms."""

    def told(member: Member, one: Fleet, attack: str) -> None:
        standing = StandingOthers(replace(one.charter, terms=terms))
        for other in one.others(attack):
            standing.take(other)
        member.set_prior(standing.others(1, _OWN, least=terms.least))

    return told


def _found(detector: Detector, one: Fleet) -> float:
    limit = float(np.quantile(detector.score_many(one.normal), 1.0 - _RATE))
    return float((detector.score_many(one.faulty) > limit).mean())


#: Four times as many rows as a pump has.
BOUNDED = Terms(most_rows=4.0 * ROWS)
#: The ways, by the heading under which they are told.
WAYS: dict[str, Callable[[Fleet, str], float]] = {
    "everyone, no bounds": merged_by(Everyone(), UNBOUNDED),
    "everyone": merged_by(Everyone(), BOUNDED),
    **{name: merged_by(rule, BOUNDED) for name, rule in RULES.items()},
    "asked, by name": asked(by_name),
    "asked, at once": asked(at_once(BOUNDED)),
    "the same, least 2": asked(at_once(replace(BOUNDED, least=2))),
}
#: The two kinds of score: the layer's activation, and how large a fault it finds.
SCORES = {"distance": ("identity", SIZE), "loss": ("sigmoid", 2.0 * SIZE)}


def table(score: str, seeds: Sequence[int]) -> list[tuple[str, list[float]]]:
    """Measures each attack by each way, in the mean over fleets of these seeds."""
    fleets = [fleet(seed, *SCORES[score]) for seed in seeds]
    return [
        (attack, [fmean(way(one, attack) for one in fleets) for way in WAYS.values()])
        for attack in ATTACKS
    ]


# What bounds cost an honest fleet, of which a few devices are old and the others young


def costs(title: str, old: int, folder: Path) -> list[float]:
    """Finds how the AUC of young devices changes by the usual bounds, as one model of everybody."""
    known = MIXTURES[title].devices(folder, 1)
    known.pop(POISONED_DEVICE, None)
    basis = Basis.fitted(np.vstack([one.train for one in known.values()]), None, scaling="standard")
    rows = {
        name: one.train[: None if n < old else YOUNG] for n, (name, one) in enumerate(known.items())
    }
    held = [_said(basis, name, some) for name, some in rows.items()]

    def found(name: str, terms: Terms) -> float:
        exchange = MemoryExchange(Charter("fleet", basis, terms=terms))
        for one in held:
            exchange.publish(one)
        merged = exchange.merged(name)
        detector = _learned(basis, rows[name])
        detector.set_prior(() if merged is None else merged.received)
        labels, test = known[name].labels, known[name].test
        assert labels is not None
        assert test is not None
        return auc(labels, np.asarray(detector.score_many(test), np.float64))

    young = [name for name in list(known)[old:] if known[name].test is not None]
    return [found(name, BOUNDED) - found(name, UNBOUNDED) for name in young]


def main(
    score: Annotated[
        list[str] | None, typer.Option(help="distance or loss; both unless told.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many fleets.", min=1)] = len(TELLING),
    data: Annotated[
        Path | None,
        typer.Option(envvar="ELMGROVE_DATA", help="With the data sets: what bounds cost as well."),
    ] = None,
) -> None:
    """Prints what share of a fault's rows is found while one device lies, in Markdown."""
    for one in score or SCORES:
        print(f"\nBy {one}, a fault of {SCORES[one][1]:g} σ:\n")
        print(f"| one of {OTHERS} others says | {' | '.join(WAYS)} |")
        print(f"|---|{'---|' * len(WAYS)}")
        for attack, found in table(one, TELLING[:seeds]):
            print(f"| {attack} | {' | '.join(f'{share:.0%}' for share in found)} |")
    fleets = [fleet(seed) for seed in TELLING[:seeds]]
    for rows in (100_000, 10_000, 1_000):
        way = merged_by(Everyone(), replace(BOUNDED, most_rows=rows))
        share = fmean(way(one, COUNTED) for one in fleets)
        print(f"\nBy distance, {COUNTED}, at most {rows:,} rows of a device: {share:.0%}")
    if data is not None:
        for title in HONEST_FLEETS:
            for old in (1, 3):
                changes = costs(title, old, data)
                said = f"{fmean(changes):+.4f} of AUC, worst {min(changes):+.4f}"
                print(f"\n{title}: {old} old, the others {YOUNG} rows: {said}")


if __name__ == "__main__":
    typer.run(main)
