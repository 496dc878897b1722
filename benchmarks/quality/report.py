"""The numbers as tables of cells, and their print on a terminal."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.quality import after_learn, drift, first_day, fleets, mixtures, poison, silencing
from benchmarks.quality.battery import ORACLE
from benchmarks.quality.kinds import MIXTURES
from benchmarks.quality.measure import Quality
from benchmarks.quality.methods import DEFAULT, OTHERS, OWN
from benchmarks.quality.runs import BATTERY, Record, Results
from benchmarks.quality.summary import Battery, Line, batteries, counted, lines
from benchmarks.quality.targets import HURT, Reached

_ORDER = [entry.name for entry in OWN + OTHERS]


class Cells(NamedTuple):
    """A table with a title, for a terminal or a page."""

    title: str
    head: list[str]
    rows: list[list[str]]


def tables(results: Results, reached: Sequence[Reached]) -> list[Cells]:
    """Makes all tables of a run, targets last."""
    return [*measured(results), *promises(results), targets(reached)]


def measured(results: Results) -> list[Cells]:
    """Makes the tables of how well rows are told apart."""
    known = lines(results.records)
    found = [
        _real(name, [one for one in known if one.set == name])
        for name in dict.fromkeys(one.set for one in known)
        if name not in fleets.TITLES
    ]
    found += [_fleet(results.records, name) for name in fleets.FLEETS if _has(results, name)]
    if results.streams:
        found.append(_streams(results))
    if results.battery:
        found.append(_faults(batteries(results.battery)))
    mixed = {one.mixture for one in results.choices}
    found += [_mixture(results.choices, title) for title in MIXTURES if title in mixed]
    if results.poisoned:
        found.append(_poison(results.poisoned))
    if results.drifts:
        found += _drift(drift.together(results.drifts))
    return found


def promises(results: Results) -> list[Cells]:
    """Makes the tables of a first day, after learn, and beside others."""
    found = []
    if results.days:
        found.append(_first_day(results.days))
    if results.taught:
        found.append(_after_learn(results.taught))
    if results.beside:
        found.append(_beside(results.beside))
    return found


def print_report(
    results: Results, reached: Sequence[Reached], about: dict[str, Any], out: Console
) -> None:
    """Prints where, what failed, and all tables."""
    out.print(f"{about['date']}, {about['processor']}, {about['cores']} cores")
    if about["not there"]:
        out.print(f"Not measured, since not in the data folder: {', '.join(about['not there'])}")
    for failure in results.failures:
        out.print(f"[red]failed[/]: {failure}")
    for cells in tables(results, reached):
        out.print(_printed(cells))


def _printed(cells: Cells) -> Table:
    table = Table(title=cells.title, title_justify="left", box=SIMPLE_HEAD, title_style="bold")
    for number, column in enumerate(cells.head):
        table.add_column(column, justify="right" if number else "left")
    for row in cells.rows:
        table.add_row(*row)
    return table


def _real(name: str, known: Sequence[Line]) -> Cells:
    head = ["method", "AUC", "± devices", "± seeds", "AP", "recall", "false alarms", "s", "n"]
    ordered = sorted(known, key=lambda one: _ORDER.index(one.method))
    rows = [
        [
            _named(one),
            f"{one.auc:.3f}",
            f"{one.devices_spread:.3f}",
            "" if one.seeds_spread is None else f"{one.seeds_spread:.4f}",
            f"{one.ap:.3f}",
            f"{one.recall:.1%}",
            f"{one.false_alarms:.2%}",
            f"{one.seconds:.2f}",
            str(one.devices),
        ]
        for one in ordered
    ]
    return Cells(name, head, rows)


def _has(results: Results, name: str) -> bool:
    return any(fleets.TITLES.get(one.set, ("",))[0] == name for one in results.records)


def _fleet(records: Sequence[Record], name: str) -> Cells:
    """Shows for each number of own rows what each way to use others gives and takes."""
    rows = []
    for title in (one for one, (fleet, _) in fleets.TITLES.items() if fleet == name):
        known = {
            way: {
                one.device: one.quality for one in records if (one.set, one.method) == (title, way)
            }
            for way in fleets.WAYS
        }
        if alone := known[fleets.ALONE]:
            own = fleets.TITLES[title][1]
            rows += [[str(own or "all"), *_way(way, found, alone)] for way, found in known.items()]
    head = ["own rows", "others", "AUC", "AP", f"hurt by > {HURT}", "worst", "n"]
    return Cells(f"{name} as a fleet", head, rows)


def _way(way: str, found: dict[str, Quality], alone: dict[str, Quality]) -> list[str]:
    changes = [found[device].auc - alone[device].auc for device in found]
    return [
        way,
        f"{fmean(one.auc for one in found.values()):.3f}",
        f"{fmean(one.ap for one in found.values()):.3f}",
        f"{sum(change < -HURT for change in changes) / len(changes):.0%}",
        f"{min(changes):+.3f}",
        str(len(changes)),
    ]


def _mixture(choices: Sequence[mixtures.Choice], title: str) -> Cells:
    """Shows for each number of own rows whom each rule chose, and what came of it."""
    found = [
        [str(rows or "all"), rule, *_choice(known)]
        for rows in mixtures.ROWS
        for rule in mixtures.RULES
        if (known := mixtures.chosen(choices, title, rows, rule)) is not None
    ]
    head = ["own rows", "rule", "takes", "precision", "recall", "poisoned left out"]
    head += ["AUC", f"hurt by > {HURT}", "worst", "n"]
    return Cells(f"Mixture: {title}", head, found)


def _choice(known: mixtures.Chosen) -> list[str]:
    return [
        f"{known.taken:.1f}",
        "" if known.precision is None else f"{known.precision:.2f}",
        f"{known.recall:.2f}",
        "" if known.left_out is None else f"{known.left_out:.0%}",
        f"{known.auc:.3f}",
        f"{sum(change < -HURT for change in known.changes) / len(known.changes):.0%}",
        f"{min(known.changes):+.3f}",
        str(known.devices),
    ]


def _poison(found: Sequence[poison.Poisoned]) -> Cells:
    """Shows for each number of own rows what each lie of one lender changed."""
    keys = sorted({(one.case.rows, one.attack) for one in found})
    rows = []
    for own, attack in keys:
        known = [one for one in found if (one.case.rows, one.attack) == (own, attack)]
        changes = [one.change for one in known]
        recalls = [fmean(one.honest_recall for one in known), fmean(one.recall for one in known)]
        cells = [*(f"{one:.3f}" for one in recalls), f"{fmean(changes):+.3f}"]
        rows.append([str(own), attack, *cells, f"{min(changes):+.3f}", str(len(known))])
    head = [
        "own rows",
        "one lender of eleven",
        "recall if honest",
        "recall",
        "change",
        "worst",
        "n",
    ]
    return Cells("Poison: SMD as a fleet, by the loan", head, rows)


def _drift(known: Sequence[drift.Told]) -> list[Cells]:
    """Shows how soon and how rightly changes were told, and how often where there were none."""
    head = ["set", "what happens", "method", "told", "rows until then", "kind right"]
    head += ["sensor right", "onset off by", "n"]
    changes = [
        [
            *(one.set, one.kind, one.method, f"{one.found:.0%}", _rows(one.rows)),
            *(_share(one.kind_right), _share(one.sensor_right), _rows(one.onset)),
            str(one.cases),
        ]
        for one in known
        if one.kind != drift.CALM
    ]
    calm = [
        [one.set, one.method, f"{one.false:.1f}", str(one.cases)]
        for one in known
        if one.kind == drift.CALM
    ]
    return [
        Cells("Drift: changes told", head, changes),
        Cells("Drift: told in 10⁵ rows of no change", ["set", "method", "told", "n"], calm),
    ]


def _first_day(days: Sequence[first_day.Day]) -> Cells:
    head = ["devices", "n", "told", "asked", "told again", "fault rows learned"]
    head += ["events in 1,000 normal rows", "questions in 1,000"]
    groups = {
        "even: constants chosen on these": [one for one in days if not one.case.odd],
        "odd: reported": [one for one in days if one.case.odd],
    }
    for name in dict.fromkeys(one.case.set for one in days):
        mine = [one for one in days if one.case.set == name]
        groups[f"{name}, even"] = [one for one in mine if not one.case.odd]
        groups[f"{name}, odd"] = [one for one in mine if one.case.odd]
    rows = []
    for title, group in groups.items():
        if group:
            found = first_day.together(group)
            shares = (found.told, found.asked, found.told_again, found.learned)
            cells = [f"{found.events:.2f}", f"{found.questions:.2f}"]
            rows.append([title, str(found.devices), *(f"{one:.0%}" for one in shares), *cells])
    return Cells("First day: a fault, and the same fault again", head, rows)


def _after_learn(taught: Sequence[after_learn.Taught]) -> Cells:
    head = ["set", "devices", "n", "watch"]
    for way in ("by score", "as a stream"):
        head += [f"{way}: false alarms, median", "mean", "recall"]
    rows = []
    for name in dict.fromkeys(one.case.set for one in taught):
        for odd in (False, True):
            mine = [one for one in taught if one.case.set == name and one.case.odd == odd]
            if mine:
                watch = sum(one.watches for one in mine)
                cells = [name, "odd" if odd else "even", str(len(mine)), f"{watch / len(mine):.0%}"]
                for alarms in ([one.by_score for one in mine], [one.as_stream for one in mine]):
                    found = after_learn.Together.of(alarms)
                    cells += [f"{found.median:.2%}", f"{found.mean:.2%}", f"{found.recall:.1%}"]
                rows.append(cells)
    return Cells("After learn: later rows, with 1 % of false alarms stated", head, rows)


def _beside(found: Sequence[silencing.Beside]) -> Cells:
    """Shows for each fleet the labelled stretches with an event, alone and with others."""
    rows = []
    for fleet in dict.fromkeys(one.fleet for one in found):
        mine = [one.told for one in found if one.fleet == fleet]
        stretches = sum(one[silencing.ALONE].stretches for one in mine)
        cells = [
            f"{sum(len(one[way].found) for one in mine)} "
            f"({sum(one[way].rows for one in mine)}; {sum(one[way].known for one in mine)})"
            for way in silencing.WAYS
        ]
        rows.append([fleet, str(stretches), *cells])
    title = "Silencing: labelled stretches with an event (rows of events in them; known elsewhere)"
    return Cells(title, ["fleet", "stretches", *silencing.WAYS], rows)


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _rows(rows: float | None) -> str:
    return "" if rows is None else f"{rows:.0f}"


def _named(line: Line) -> str:
    """Names a method; the default one with the windows that it chose."""
    chosen = ", ".join(map(str, line.windows))
    return f"{line.method} (w = {chosen})" if line.method == DEFAULT and chosen else line.method


def _streams(results: Results) -> Cells:
    head = ["device", "watches from row", "of test rows", "false alarms", "in training", "recall"]
    rows = [
        [
            name,
            "never" if one.watching_from is None else f"{one.watching_from:,}",
            f"{one.watched:.0%}",
            _percent(one.false_alarms),
            _percent(one.flagged_in_training),
            _percent(one.recall),
        ]
        for name, one in sorted(results.streams.items())
    ]
    return Cells("SMD as a stream, defaults, from the first row on", head, rows)


def _faults(found: Sequence[Battery]) -> Cells:
    """Shows for each method and width the mean over kinds, and the lowest of any."""
    sensors = sorted({one.sensors for one in found})
    head = ["method", *(counted(n) for n in sensors), "false alarms", "ms"]
    there = {one.method for one in found}
    rows = []
    for method in [name for name in (ORACLE, *_ORDER) if name in there]:
        mine = [one for one in found if one.method == method]
        cells = [_shares([one for one in mine if one.sensors == n]) for n in sensors]
        alarms = sum(one.false_alarms for one in mine) / len(mine)
        time = 1e3 * sum(one.seconds for one in mine) / len(mine)
        rows.append([method, *cells, f"{alarms:.2%}", f"{time:.0f}"])
    title = (
        f"{BATTERY}: faults of 6 residual σ, % of rows flagged: blocks (lowest), single (lowest)"
    )
    return Cells(title, head, rows)


def _shares(alike: Sequence[Battery]) -> str:
    def part(shape: str) -> str:
        mean = sum(one.mean[shape] for one in alike) / len(alike)
        return f"{100 * mean:.0f} ({100 * min(one.lowest[shape] for one in alike):.0f})"

    return f"{part('block')}, {part('single')}" if alike else ""


def targets(reached: Sequence[Reached]) -> Cells:
    """Shows each target with what was found."""
    said = {True: "met", False: "not met", None: ""}
    rows = [[one.part, one.target, one.found, said[one.met]] for one in reached]
    return Cells("Targets, with defaults", ["set", "target", "found", ""], rows)


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.2%}"
