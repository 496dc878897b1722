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
from elmgrove.detector import state
from elmgrove.device.status import status_of
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member, borrowed_by
from elmgrove.rounds import compact, predictor
from elmgrove.storage.disk import load
from elmgrove.storage.sealed import format_of


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
    facts = load(file, _facts)
    if as_json:
        Console().print_json(json.dumps(facts))
        return
    grid = Grid(title=str(file), show_header=False)
    for name, value in facts.items():
        grid.add_row(name, value if isinstance(value, str) else json.dumps(value))
    Console(markup=False, emoji=False).print(grid)


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
