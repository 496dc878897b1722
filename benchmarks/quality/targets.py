"""What the project wants to reach, with its defaults, and what a run found."""

from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

from benchmarks.quality import drift, fleets, mixtures, pairs, poison
from benchmarks.quality.battery import ORACLE
from benchmarks.quality.kinds import MIXTURES
from benchmarks.quality.methods import DEFAULT, FIRST, OTHERS
from benchmarks.quality.runs import BATTERY, STREAMED, Record, Results
from benchmarks.quality.summary import (
    SHAPES,
    Battery,
    Line,
    batteries,
    counted,
    devices_with,
    lines,
    mean_auc,
)
from elmgrove.detector import SPIKE

FLAGGED = 0.95
SPREAD = 0.005
SMD_AUC, SMD_AP = 0.84, 0.43
MARGIN = 0.01
LEAST_ALARMS, MOST_ALARMS = 0.003, 0.03
#: What a loan gains young devices, may cost in the mean, and what hurts one device.
LOAN_GAIN, LOAN_COST, HURT = 0.02, 0.003, 0.02
#: What one lender that lies may change of the recall, in the mean over devices.
POISONED = 0.02
#: Of devices of one kind a rule for mixtures finds so many, of those that it takes so many are.
FOUND, RIGHT = 0.9, 0.99
#: Of lasting changes so many are told, of what is told so many rightly; and so many where there
#: are none, in 10⁵ rows.
TOLD, RIGHTLY, FALSELY = 0.99, 0.9, 1.0
#: Pairs are compared to this accuracy.
_ROUNDING = 5e-4


class Reached(NamedTuple):
    """A target, what was found, and whether that is enough; None where it is a remark."""

    part: str
    target: str
    found: str
    met: bool | None


def judged(results: Results) -> list[Reached]:
    """Judges all targets that this run has numbers for."""
    known = lines(results.records)
    return [
        *_faults(batteries(results.battery)),
        *_spreads(known),
        *_servers(known),
        *_against_peers(results.records, known),
        *_alarms(results),
        *_pairs(results.records),
        *_fleets(results.records),
        *_mixtures(results.choices),
        *_poison(results.poisoned),
        *_drift(drift.together(results.drifts)),
    ]


def _faults(found: Sequence[Battery]) -> Iterator[Reached]:
    own = [one for one in found if one.method == DEFAULT]
    law = {(one.kind, one.sensors): one for one in found if one.method == ORACLE}
    for shape in SHAPES:
        for sensors in sorted({one.sensors for one in own}):
            alike = [one for one in own if one.sensors == sensors]
            least = min(alike, key=lambda one: one.lowest[shape])
            most = law[least.kind, sensors].lowest[shape]
            worst = min(one.worst[shape] for one in alike)
            yield Reached(
                BATTERY,
                f"{counted(sensors)}, {shape}: ≥ {FLAGGED:.0%} of rows for every seed and order",
                f"{least.lowest[shape]:.1%} ({least.kind}; by the true law {most:.1%}; "
                f"worst of all faults {worst:.0%})",
                least.lowest[shape] >= FLAGGED,
            )


def _spreads(known: Sequence[Line]) -> Iterator[Reached]:
    for one in known:
        if one.method == DEFAULT and one.seeds_spread is not None and one.set not in pairs.SETS:
            found = f"{one.seeds_spread:.4f} (worst device {one.worst_spread:.4f})"
            met = one.seeds_spread <= SPREAD
            yield Reached(one.set, f"AUC's spread over seeds ≤ {SPREAD}", found, met)


def _servers(known: Sequence[Line]) -> Iterator[Reached]:
    for one in known:
        if one.set == STREAMED and one.method == DEFAULT:
            yield Reached(one.set, f"AUC ≥ {SMD_AUC}", f"{one.auc:.3f}", one.auc >= SMD_AUC)
            text = f"average precision ≥ {SMD_AP}"
            yield Reached(one.set, text, f"{one.ap:.3f}", one.ap >= SMD_AP)


def _against_peers(records: Sequence[Record], known: Sequence[Line]) -> Iterator[Reached]:
    """Compares with each set's best peers, on the devices that both have."""
    for name in dict.fromkeys(one.set for one in known):
        there = {one.method for one in known if one.set == name}
        for streams in (True, False):
            peers = [e.name for e in OTHERS if e.streams == streams and e.name in there - {FIRST}]
            if peers and DEFAULT in there:
                yield _against(records, name, peers, streams)


def _against(records: Sequence[Record], name: str, peers: list[str], streams: bool) -> Reached:
    devices = {peer: devices_with(records, name, peer) for peer in peers}
    aucs = {peer: mean_auc(records, name, peer, devices[peer]) for peer in peers}
    best = max(aucs, key=aucs.__getitem__)
    mine = mean_auc(records, name, DEFAULT, devices[best])
    found = f"{mine:.3f}, {best} {aucs[best]:.3f}"
    if streams:
        text = f"AUC ≥ that of the best peer that streams or merges − {MARGIN}"
        return Reached(name, text, found, mine >= aucs[best] - MARGIN)
    ahead = "ahead" if aucs[best] > mine else "not ahead"
    text = f"a peer that neither streams nor merges is {ahead}"
    return Reached(name, text, found, None)


def _alarms(results: Results) -> Iterator[Reached]:
    if not results.streams:
        return
    rates = {name: one.false_alarms for name, one in results.streams.items()}
    known = [rate for rate in rates.values() if rate is not None]
    middle = median(known) if known else None
    text = f"false alarms while watching, median: {LEAST_ALARMS:.1%} to {MOST_ALARMS:.0%}"
    met = middle is not None and LEAST_ALARMS <= middle <= MOST_ALARMS
    silent = (
        f"; {len(rates) - len(known)} of {len(rates)} never watch" if None in rates.values() else ""
    )
    yield Reached(STREAMED, text, (f"{middle:.2%}" if middle is not None else "none") + silent, met)


def _pairs(records: Sequence[Record]) -> Iterator[Reached]:
    for name in pairs.SETS:
        devices = devices_with(records, name, DEFAULT)
        if devices:
            mine, first = (mean_auc(records, name, method, devices) for method in (DEFAULT, FIRST))
            found = f"{mine:.3f}, 0.1 {first:.3f}"
            yield Reached(name, "AUC no worse than 0.1's", found, mine >= first - _ROUNDING)


def _fleets(records: Sequence[Record]) -> Iterator[Reached]:
    for name in fleets.FLEETS:
        for rows in fleets.ROWS:
            title = fleets.fleet_title(name, rows)
            changes = _changes(records, title)
            if changes:
                yield _by_loan(title, name, rows, changes)


def _changes(records: Sequence[Record], title: str) -> list[float]:
    """What the loan changed in the AUC of each device."""
    aucs = {(one.device, one.method): one.quality.auc for one in records if one.set == title}
    return [
        auc - aucs[device, fleets.ALONE]
        for (device, method), auc in aucs.items()
        if method == fleets.LOAN
    ]


def _by_loan(title: str, name: str, rows: int | None, changes: list[float]) -> Reached:
    mean, worst = fmean(changes), min(changes)
    hurt = sum(change < -HURT for change in changes) / len(changes)
    found = f"{mean:+.4f}; hurt by more than {HURT}: {hurt:.0%}, worst {worst:+.3f}"
    if name == STREAMED and rows in (30, 100):
        return Reached(title, f"the loan gains ≥ {LOAN_GAIN} in the mean", found, mean >= LOAN_GAIN)
    if rows in (30, 100, 300):
        met = mean >= -LOAN_COST
        return Reached(title, f"the loan costs at most {LOAN_COST} in the mean", found, met)
    text = f"the loan costs at most {LOAN_COST} in the mean, and no device {HURT}"
    return Reached(title, text, found, mean >= -LOAN_COST and hurt == 0.0)


def _mixtures(choices: Sequence[mixtures.Choice]) -> Iterator[Reached]:
    for title, mixture in MIXTURES.items():
        for rule in (mixtures.QUALITY, mixtures.BENEFIT, mixtures.GROUP):
            known = mixtures.chosen(choices, title, None, rule)
            if known is not None:
                yield _hurting_nobody(title, rule, known)
                if rule == mixtures.GROUP and mixture.alike:
                    yield _finding_its_kind(title, rule, known)
                if known.left_out is not None:
                    found = f"{known.left_out:.0%}"
                    text = f"{rule}, all own rows: the poisoned one is left out"
                    yield Reached(title, text, found, known.left_out == 1.0)


def _hurting_nobody(title: str, rule: str, known: mixtures.Chosen) -> Reached:
    worst = min(known.changes)
    found = f"takes {known.taken:.1f}; worst {worst:+.3f}"
    return Reached(title, f"{rule}, all own rows: hurts no device by {HURT}", found, worst >= -HURT)


def _finding_its_kind(title: str, rule: str, known: mixtures.Chosen) -> Reached:
    precision = 0.0 if known.precision is None else known.precision
    text = f"{rule}, all own rows: recall of the own kind ≥ {FOUND}, precision ≥ {RIGHT}"
    met = known.recall >= FOUND and precision >= RIGHT
    return Reached(title, text, f"{known.recall:.2f}, {precision:.2f}", met)


def _poison(found: Sequence[poison.Poisoned]) -> Iterator[Reached]:
    for attack in dict.fromkeys(one.attack for one in found if one.attack != poison.ABSENT):
        changes = {
            rows: fmean(
                one.change for one in found if (one.attack, one.case.rows) == (attack, rows)
            )
            for rows in sorted({one.case.rows for one in found})
        }
        text = f"one lender lies ({attack}): recall changes by at most {POISONED} in the mean"
        said = ", ".join(f"{change:+.3f} at {rows} rows" for rows, change in changes.items())
        met = all(abs(change) <= POISONED for change in changes.values())
        yield Reached("SMD as a fleet", text, said, met)


def _drift(known: Sequence[drift.Told]) -> Iterator[Reached]:
    own = [one for one in known if one.method == drift.OWN]
    for one in (one for one in own if one.set not in (drift.FANS, drift.SEEN)):
        if one.kind == drift.CALM:
            text = f"drift: told at most {FALSELY:.0f} time in 10⁵ rows of no change"
            found = one.false or 0.0
            yield Reached(one.set, text, f"{found:.1f}", found <= FALSELY)
        elif one.kind == SPIKE:
            text = f"drift: a spike of {drift.SPIKE_ROWS} rows is never told as a lasting change"
            yield Reached(one.set, text, f"{one.found:.0%}", one.found == 0.0)
        else:
            rightly = min(one.kind_right or 0.0, one.sensor_right or 0.0)
            text = (
                f"drift: a {one.kind} is told in {TOLD:.0%}, kind and sensor right in {RIGHTLY:.0%}"
            )
            met = one.found >= TOLD and rightly >= RIGHTLY
            yield Reached(one.set, text, f"{one.found:.0%}, {rightly:.0%}", met)
