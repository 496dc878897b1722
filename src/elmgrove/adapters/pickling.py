"""How pickle and copy take learners along: scikit-learn and River copy their estimators.

A learner holds BLAS routines, which can't be copied. What it learned can, and the rest follows.
"""

import copyreg
from typing import Any

import numpy as np

from elmgrove.basis import Basis
from elmgrove.detector import Detector
from elmgrove.evidence import Evidence
from elmgrove.oselm import OSELM
from elmgrove.packing import Packed, pack_detector, pack_evidence, unpack_detector, unpack_evidence


def let_learners_be_copied() -> None:
    """From now on ``pickle`` and ``copy`` know how to take a model or a detector along."""
    copyreg.pickle(OSELM, _reduced_model)
    copyreg.pickle(Detector, _reduced_detector)


def _reduced_model(model: OSELM) -> tuple[Any, ...]:
    settings = (model.ridge, model.forgetting, model.dtype)
    return _model, (
        model.basis.fields,
        settings,
        pack_evidence(model.evidence),
        _pack(model.prior),
    )


def _model(
    basis_fields: dict[str, Any],
    settings: tuple[float, float, np.dtype[Any]],
    own: Packed,
    prior: Packed | None,
) -> OSELM:
    basis = Basis.from_fields(basis_fields)
    ridge, forgetting, dtype = settings
    model = OSELM(
        basis.layer, basis.outputs, ridge=ridge, forgetting=forgetting, dtype=dtype, basis=basis
    )
    model.merge(unpack_evidence(basis, *own))
    model.prior = _unpack(basis, prior)
    return model


def _reduced_detector(detector: Detector) -> tuple[Any, ...]:
    return _detector, (pack_detector(detector), _pack(detector.received))


def _detector(packed: Packed, received: Packed | None) -> Detector:
    detector = unpack_detector(*packed)
    if received is not None:
        detector.merge(unpack_evidence(detector.basis, *received))
    return detector


def _pack(evidence: Evidence | None) -> Packed | None:
    return None if evidence is None else pack_evidence(evidence)


def _unpack(basis: Basis, packed: Packed | None) -> Evidence | None:
    return None if packed is None else unpack_evidence(basis, *packed)
