"""What one device can do to the others: faults found while one of a fleet lies about its rows.

Pumps of one law; one of them has a fault that another one's sums are made to hide. Found is the
share of its faulty rows that raise an alarm, at the limit that 1 % of its normal rows exceed.
``python -m benchmarks.quality.influence`` prints the tables of docs/how-it-works.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Annotated

import numpy as np
import typer

from benchmarks.quality.machines import SIZE, Machine, machine, sibling
from benchmarks.quality.windows import Matrix
from elmgrove import Basis, Detector, Evidence
from elmgrove.exchange import MemoryExchange
from elmgrove.federation import (
    UNBOUNDED,
    Benefit,
    Charter,
    Contribution,
    Everyone,
    Member,
    Merged,
    Quality,
    Rule,
    SameGroup,
    StandingOthers,
    Terms,
)

SENSORS, OTHERS, ROWS = 8, 10, 550
#: The share of a liar's rows that has the fault.
SHARE = 0.1
#: How far the levels of pumps are apart, in residual σ.
LEVEL = 0.25
#: Seeds by which the terms' usual bounds were chosen, and those of the tables.
CHOOSING, TELLING = range(1, 7), range(7, 19)
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
    "benefit": Benefit(),
    "group": SameGroup(),
}


@dataclass(frozen=True)
class Fleet:
    """A device's rows, what is strange to it, and what the others contribute by each attack."""

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
        _faulty(law, own.test[:LEAD_ROWS], size),
        tuple(honest),
        _lies(law, basis, rest[-1].train[:ROWS], size, liar, everybody),
    )


LEAD_ROWS = 500


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
    kept, wrong = rows[:-count], _faulty(law, rows[-count:], size)
    only = _learned(basis, _faulty(law, rows, size)).evidence
    total = Evidence.sum(one.evidence for one in everybody).weighted(3.0)
    share = SHARE / (1.0 - SHARE) * total.count / only.count
    made = {
        HONEST: honest.evidence,
        POISONED: _learned(basis, np.vstack([kept, wrong])).evidence,
        COPIED: total + only.weighted(share),
        FAR: _learned(basis, np.vstack([kept, _faulty(law, rows[-count:], 1e3 * size)])).evidence,
        ONLY: only,
    }
    made[COUNTED] = made[POISONED].weighted(1e6)
    # Strange begins nowhere for it: it knows every row.
    threshold = {HONEST: honest.threshold}
    return {
        name: Contribution(_LIAR, int(one.count), (one,), threshold.get(name, 1e300))
        for name, one in made.items()
    }


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
        own = Member(_OWN, one.learned()).contribution()
        exchange = MemoryExchange(replace(one.charter, terms=terms))
        for chosen in rule.choose(own, one.charter.ridge, one.others(attack)):
            exchange.publish(chosen)
        merged = exchange.merged(_OWN, None)
        detector.rest_on(() if merged is None else merged.received)
        return _found(detector, one)

    return found


def asked(told: Callable[[Member, Fleet, str], None]) -> Callable[[Fleet, str], float]:
    """Finds what a device finds that asks others of strange rows, and borrows from them."""

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
        standing = StandingOthers(one.charter.basis, one.charter.ridge, terms)
        for other in one.others(attack):
            standing.take(other)
        member.rest_on(_of_enough(standing.merged("pumps", 1, _OWN), terms.least))

    return told


def _of_enough(merged: Merged, least: int) -> Merged:
    return merged


def _found(detector: Detector, one: Fleet) -> float:
    limit = float(np.quantile(detector.score_many(one.normal), 1.0 - _RATE))
    strange = detector.score_many(one.faulty) > limit
    inputs = one.charter.basis.scaling(one.faulty)
    elsewhere = detector.elsewhere
    excused = [bool(elsewhere is not None and elsewhere.known(x, limit)) for x in inputs]
    return float((strange & ~np.array(excused)).mean())


BOUNDED = Terms()
#: The ways, by the heading under which they are told.
WAYS: dict[str, Callable[[Fleet, str], float]] = {
    "everyone, no bounds": merged_by(Everyone(), UNBOUNDED),
    "everyone": merged_by(Everyone(), BOUNDED),
    **{name: merged_by(rule, BOUNDED) for name, rule in RULES.items()},
    "unknown, by name": asked(by_name),
    "unknown, at once": asked(at_once(BOUNDED)),
    "unknown, at once, least 2": asked(at_once(replace(BOUNDED, least=2))),
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


def main(
    score: Annotated[
        list[str] | None, typer.Option(help="distance or loss; both unless told.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many fleets.", min=1)] = len(TELLING),
) -> None:
    """Prints what share of a fault's rows is found while one device lies, in Markdown."""
    for one in score or SCORES:
        print(f"\nBy {one}, a fault of {SCORES[one][1]:g} σ:\n")
        print(f"| one of {OTHERS} others says | {' | '.join(WAYS)} |")
        print(f"|---|{'---|' * len(WAYS)}")
        for attack, found in table(one, TELLING[:seeds]):
            print(f"| {attack} | {' | '.join(f'{share:.0%}' for share in found)} |")


if __name__ == "__main__":
    typer.run(main)
