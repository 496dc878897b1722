"""``elmgrove status`` and ``inspect``: how a device is doing, and what a file holds."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.cli.feedback import Device, StateOrAgent
from elmgrove.cli.options import AsJson, percent, print_json, print_result, shown
from elmgrove.detector import state
from elmgrove.detector.decision import LEARNING
from elmgrove.detector.events import normal_at
from elmgrove.device.status import status_of
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Borrowing, Member, borrowed_by
from elmgrove.rounds import compact, predictor
from elmgrove.storage.disk import load
from elmgrove.storage.sealed import format_of

Fields = Mapping[str, Any]


def status(state: StateOrAgent, as_json: AsJson = False) -> None:
    """Show how a device is doing.

    What it learned, whether it watches, its events, and what it has from others. A running agent
    answers for now; otherwise it is what was saved last.

    Example: [bold]elmgrove status fan-1.elm[/]
    """
    found, live = Device(state).ask("status")
    if as_json:
        print_json({**found, "live": live})
        return
    running = "its agent is running" if live else "as it was saved; no agent is running"
    _show_lines(f"{found.get('name', state)}: {running}", lines_of(found))


def _show_lines(title: str, lines: Mapping[str, str]) -> None:
    grid = Grid(title=title, show_header=False)
    for name, text in lines.items():
        grid.add_row(name, text)
    print_result(grid)


def lines_of(found: Fields) -> dict[str, str]:
    agent = {"agent": _agent(found["agent"])} if "agent" in found else {}
    if "state" not in found:
        # The agent waits for something, and its line says for what.
        return agent
    learned, kept, counted = found["learned"], round(found["kept"]), found["counted"]
    left = f"; {kept:,} of them are in the model" if kept < learned else ""
    stated = "" if found["rate"] is None else f"; stated: {100.0 * found['rate']:g} %"
    events = [*found["last_events"], *([found["event"]] if found["event"] else [])]
    waiting = found["quarantine"]
    lines = {
        "learned": f"{learned:,} {counted}{left}",
        "patterns": found["patterns"] or "",
        "state": _state(found),
        "flagged": f"{flagged(found)}{stated}",
        "events": "\n".join(map(_event, events)) or "none",
        "drift": "none" if found["drift"] is None else found["drift"]["text"],
        "answers": "\n".join(one["text"] for one in found["answers"][-3:]),
        "waiting": f"{waiting:,} anomalous row{'s' * (waiting != 1)} in quarantine",
        "others": learns_from(found),
        "borrows": str(Borrowing(**found["borrows"])),
        "shared": "nothing yet"
        if found["shared"] is None
        else f"sums of {found['shared']:,} {counted}",
        "unlike": "" if found["unlike"] is None else f"unlike all others: {found['unlike']}",
        "rows": "" if found["rows"] is None else _rows(found["rows"]),
        "sync": "" if found["sync"] is None else _sync(found["sync"]),
    }
    return {name: text for name, text in lines.items() if text} | agent


def flagged(found: Fields) -> str:
    seen = found["flagged"]
    if not seen["rows"]:
        return "no rows counted yet"
    low, high = map(percent, seen["band"])
    share = f"{percent(seen['share'])} (95 % sure: {low} to {high})"
    return f"{seen['flagged']} of {seen['rows']} rows: {share}"


def learns_from(found: Fields) -> str:
    others, groups = found["others"], found["groups"]
    if not others:
        return "none: its own rows alone"
    count = "1 other" if others == 1 else f"{others:,} others"
    uses = f": uses {found['uses']}" if found["uses"] else ""
    where = "" if found["federation"] is None else f" of {found['federation']!r}"
    if found["merged"]:
        models = found["models"]
        what = "one model" if models == 1 else f"{models:,} models, of which the best answers,"
        return f"{what} of its own rows and those of {count}{where}{uses}"
    in_groups = "" if groups is None else f", in {groups:,} group{'s' * (groups != 1)}"
    return f"asks {count}{where}{in_groups}; events say who knows their like{uses}"


def _state(found: Fields) -> str:
    since = f" since {shown(found['since'])}" if found["since"] else ""
    if found["state"] == LEARNING:
        missing = f"{found['rows_missing']:,} more {found['counted']}"
        return f"learning{since}: {missing} without an anomalous one until there are alarms"
    return f"{found['state']}{since}: scores above {found['threshold']:.4g} are anomalous"


def _event(event: Fields) -> str:
    """An event in one line; elmgrove quarantine lists its rows."""
    begin, end = event["begin"], event["end"]
    lasted = ", still open" if end is None else f" to {_when(end, begin)}"
    peak = f", {event['peak'] / event['threshold']:.3g} × threshold" if event["threshold"] else ""
    cause = f": {event['causes'][0]['feature']}" if event["causes"] else ""
    rows = f"{event['rows']:,} row{'s' * (event['rows'] != 1)}"
    known = f", {normal_at(event['known'])}" if event["known"] else ""
    answer = f"; answered: {event['answered']}" if event["answered"] else ""
    return f"{event['number']}. {_when(begin)}{lasted}, {rows}{peak}{known}{cause}{answer}"


def _when(when: str | int, day: str | int | None = None) -> str:
    """A time, without the date where that is today's or that of ``day``; or the number of a row."""
    return f"row {when:,}" if isinstance(when, int) else shown(when, day)


def _rows(rows: Fields) -> str:
    counts = f"{rows['used']:,} used, {rows['left_out']:,} left out"
    if not rows.get("reason"):
        return counts
    unreadable = "most of the last can't be used! " if rows.get("unreadable") else ""
    return f"{counts}; {unreadable}the last: {rows['reason']}"


def _sync(sync: Fields) -> str:
    due = "" if sync["next"] is None else f"; next {shown(sync['next'])}"
    failed = "failed: " if sync["failed"] else ""
    return f"{shown(sync['time'])}: {failed}{sync['said']}{due}"


def _agent(agent: Fields) -> str:
    process = f"process {agent['pid']} since {shown(agent['since'])}, reads {agent['source']}"
    if "waits_for" in agent:
        return f"{process}, waits for {agent['waits_for']}"
    where = f"; last: {agent['where']}" if agent["where"] else ""
    return f"{process}: {agent['rows']:,} rows{where}"


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="A state, evidence, a predictor, or a compact classifier.",
            exists=True,
            dir_okay=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show what a file of Elmgrove holds.

    The file is checked first: a damaged one is refused.

    Example: [bold]elmgrove inspect fan-1.elm[/]
    """
    facts = load(file, _facts)
    if as_json:
        print_json(facts)
        return
    lines = {name: one if isinstance(one, str) else json.dumps(one) for name, one in facts.items()}
    _show_lines(str(file), lines)


def _facts(blob: bytes) -> dict[str, Any]:
    match format_of(blob):
        case state.STATE_FORMAT:
            return _member_facts(Member.from_bytes(blob))
        case compact.CLASSIFIER_FORMAT:
            made = compact.CompactClassifier.from_bytes(blob)
            return {
                "holds": "a classifier in whole numbers",
                "classes": made.basis.outputs,
                "inputs within": f"±{compact.LARGEST * made.step:.6g}",
                "bits dropped of hidden values": made.shift,
                **_basis_facts(made.basis),
            }
        case predictor.PREDICTOR_FORMAT:
            return _predictor_facts(predictor.Predictor.from_bytes(blob))
    contribution = Contribution.from_bytes(blob)
    verdict = contribution.evidence.admissible()
    return {
        "holds": "evidence to give away",
        "origin": contribution.origin,
        "rows": round(contribution.evidence.count),
        "threshold": contribution.threshold,
        "admissible": "yes" if verdict else f"no: {verdict.reason}",
        **_evidence_facts(contribution.evidence),
    }


def _member_facts(member: Member) -> dict[str, Any]:
    detector, merged, found = member.detector, member.merged, status_of(member)
    pairs = () if merged is None else zip(merged.labels, merged.parts, strict=False)
    received = {str(label): round(part.count) for label, part in pairs}
    received |= {held.origin: round(held.evidence.count) for held in member.ledger}
    return {
        "holds": "a device's state",
        "name": member.name,
        "state": detector.state,
        "rows missing": detector.rows_missing,
        "rows learned": detector.learned,
        "patterns": detector.patterns_in_words or "not told apart: one model",
        "threshold": f"{detector.threshold:.6g}",
        "flagged": flagged(found),
        "merged": member.merges,
        "received from": received,
        "others": learns_from(found),
        "borrows": str(borrowed_by(member)),
        "rows published": 0 if member.published is None else member.published.learned,
        "recent rows kept": len(detector.gate.recent),
        "rows in quarantine": len(detector.quarantine),
        **_evidence_facts(detector.evidence),
        "ridge": detector.model.ridge,
        "forgetting": detector.model.forgetting,
    }


def _predictor_facts(found: predictor.Predictor) -> dict[str, Any]:
    target, made = found.target, found.projection
    return {
        "holds": "a model that predicts",
        "target": target.column,
        "classes": list(target.classes) or "none: a number",
        "rows learned": [round(model.rows) for model in found.models],
        **({} if made is None else {"principal components of": f"{made.columns} columns"}),
        **_basis_facts(found.basis),
    }


def _evidence_facts(evidence: Evidence) -> dict[str, Any]:
    return {**_basis_facts(evidence.basis), "dtype": evidence.U.dtype.name}


def _basis_facts(basis: Basis) -> dict[str, Any]:
    return {
        "fingerprint": basis.fingerprint,
        "layer": basis.layer.fields,
        "columns": basis.columns,
        "features": "not named" if basis.features is None else list(basis.features),
        "scaling": basis.scaling.kind,
        "spectrum": "none" if basis.spectrum is None else basis.spectrum.fields,
        "window": basis.window,
        "score": basis.score,
    }
