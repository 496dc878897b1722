"""``elmgrove inspect``: shows what a file holds."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.cli.status import flagged, learns_from
from elmgrove.detector.state import STATE_FORMAT
from elmgrove.device.status import status_of
from elmgrove.federation.contribution import EVIDENCE_FORMAT, Contribution
from elmgrove.federation.member import Member, borrowed_by
from elmgrove.rounds.compact import (
    CLASSIFIER_FORMAT,
    LARGEST,
    CompactClassifier,
)
from elmgrove.rounds.predictor import PREDICTOR_FORMAT, Predictor
from elmgrove.storage.disk import load
from elmgrove.storage.sealed import format_of

#: What a file of Elmgrove's may hold.
Content = Member | Contribution | CompactClassifier | Predictor
_FORMATS: dict[str, type[Content]] = {
    STATE_FORMAT: Member,
    EVIDENCE_FORMAT: Contribution,
    CLASSIFIER_FORMAT: CompactClassifier,
    PREDICTOR_FORMAT: Predictor,
}


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="A state, evidence, a predictor, or a compact classifier.",
            exists=True,
            dir_okay=False,
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Show what a file of Elmgrove holds.

    The file is checked first: a damaged one is refused.

    Example: [bold]elmgrove inspect fan-1.elm[/]
    """
    facts = _facts(load(file, _content))
    if as_json:
        Console().print_json(json.dumps(facts))
        return
    grid = Grid(title=str(file), show_header=False)
    for name, value in facts.items():
        grid.add_row(name, value if isinstance(value, str) else json.dumps(value))
    Console(markup=False, emoji=False).print(grid)


def _content(blob: bytes) -> Content:
    return _FORMATS.get(format_of(blob), Contribution).from_bytes(blob)


def _facts(held: Content) -> dict[str, Any]:
    match held:
        case Member():
            return _member_facts(held)
        case Contribution():
            return _contribution_facts(held)
        case CompactClassifier():
            return _classifier_facts(held)
        case Predictor():
            return _predictor_facts(held)


def _member_facts(member: Member) -> dict[str, Any]:
    detector, found = member.detector, status_of(member)
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
        "received from": _received(member),
        "others": learns_from(found),
        "borrows": str(borrowed_by(member)),
        "rows published": 0 if member.published is None else member.published.learned,
        "recent rows kept": len(detector.gate.recent),
        "rows in quarantine": len(detector.quarantine),
        **_evidence_facts(detector.evidence),
        "ridge": detector.model.ridge,
        "forgetting": detector.model.forgetting,
    }


def _received(member: Member) -> dict[str, int]:
    merged = member.merged
    pairs = () if merged is None else zip(merged.labels, merged.parts, strict=False)
    by_group = {str(label): round(part.count) for label, part in pairs}
    return by_group | {held.origin: _rows(held) for held in member.ledger}


def _contribution_facts(contribution: Contribution) -> dict[str, Any]:
    verdict = contribution.evidence.admissible()
    return {
        "holds": "evidence to give away",
        "origin": contribution.origin,
        "rows": _rows(contribution),
        "threshold": contribution.threshold,
        "admissible": "yes" if verdict else f"no: {verdict.reason}",
        **_evidence_facts(contribution.evidence),
    }


def _rows(contribution: Contribution) -> int:
    return round(contribution.evidence.count)


def _classifier_facts(classifier: CompactClassifier) -> dict[str, Any]:
    return {
        "holds": "a classifier in whole numbers",
        "classes": classifier.basis.outputs,
        "inputs within": f"±{LARGEST * classifier.step:.6g}",
        "bits dropped of hidden values": classifier.shift,
        **_basis_facts(classifier.basis),
    }


def _predictor_facts(predictor: Predictor) -> dict[str, Any]:
    target, made = predictor.target, predictor.projection
    return {
        "holds": "a model that predicts",
        "target": target.column,
        "classes": list(target.classes) or "none: a number",
        "rows learned": [round(model.rows) for model in predictor.models],
        **({} if made is None else {"principal components of": f"{made.columns} columns"}),
        **_basis_facts(predictor.basis),
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
