"""A device's state on disk: golden files, and what is sealed but not made by the rules."""

from typing import Any

import numpy as np
import pytest

from elmgrove import BadFile
from elmgrove.detector.state import STATE_FORMAT
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.storage.sealed import seal
from support.golden import Golden, damaged

# A device by loss, and one by distance: two values a row, two rows side by side, mixed in three
# ways; a row of four waits to be added. All sums are exact in binary, so they are the same on
# every machine. A new version of the format gets new files beside them.
LOSS = Golden.read("state-2-loss.elm", STATE_FORMAT)
DISTANCE = Golden.read("state-2.elm", STATE_FORMAT)
GOLDENS = [DISTANCE, LOSS]
ROWS, WAITING = "memory.gate.recent.rows", "memory.quarantine.rows"
each_golden = pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.name)


@each_golden
def test_a_golden_file_is_a_device_in_the_middle_of_its_work(golden: Golden) -> None:
    me = Member.from_bytes(golden.blob)
    detector, arrays = me.detector, golden.arrays
    assert me.name == "Lüfter 2"
    assert (detector.learned, detector.state, detector.threshold) == (4, "watching", 1.25)
    assert (detector.model.ridge, detector.model.forgetting) == (0.25, 0.5)
    assert detector.gate.recent.rows.tolist() == arrays[ROWS].tolist()
    assert detector.gate.recent.ordered == [0.125, 0.25, 0.5, 1.0]
    assert detector.quarantine.rows().tolist() == arrays[WAITING].tolist()
    assert str(detector.events.open) == (
        "event 2: since 2024-05-01T14:20:00.500Z, 2 rows anomalous, peak 4 × threshold, "
        "normal at Lüfter 1; load 40 (not 7.5)"
    )
    assert [(event.number, event.end) for event in detector.events.closed] == [(1, 4)]
    assert detector.progress.seen[:3] == (5, 1, 1)


def test_the_golden_file_by_loss_holds_sums_over_the_rows() -> None:
    me = Member.from_bytes(LOSS.blob)
    detector, X = me.detector, LOSS.arrays[ROWS]
    H, weights = detector.basis.layer(X), np.array([0.125, 0.25, 0.5, 1.0])
    assert {held.origin: held.epoch for held in me.ledger} == {"Lüfter 1": 2, "fan-3": 7}
    assert detector.evidence.U.tolist() == ((H.T * weights) @ H).tolist()
    assert detector.evidence.V.tolist() == ((H.T * weights) @ X).tolist()
    assert detector.evidence.count == weights.sum()
    assert detector.received.U.tolist() == (H.T @ H).tolist()
    assert detector.received.V.tolist() == (H.T @ X).tolist()


def test_the_golden_file_by_distance_holds_moments_of_the_rows() -> None:
    me = Member.from_bytes(DISTANCE.blob)
    X, A = DISTANCE.arrays[ROWS], me.detector.basis.hidden.alpha
    Y, weights = X - X[0], np.array([0.125, 0.25, 0.5, 1.0])
    for part, y, w in (
        (me.detector.evidence, Y, weights),
        (me.detector.received, Y, np.ones(4)),
        (me.published.parts[0].evidence, Y[:2], np.array([0.5, 1.0])),
    ):
        assert part.centre.tolist() == X[0].tolist()
        assert part.C.tolist() == (((y @ A).T * w) @ y).tolist()
        assert part.s.tolist() == (w @ y).tolist()
        assert part.e.tolist() == (w @ y**2).tolist()
        assert part.count == w.sum()
    assert (me.shared.epoch, me.contribution().epoch) == (5, 7)
    # What is given away is about another centre than the first row.
    assert me.shared.evidence.close_to(me.published.parts[0].evidence)
    assert not np.isin(me.shared.evidence.centre, X).any()
    assert [(held.origin, held.epoch) for held in me.ledger] == [("Lüfter 1", 4)]


def test_the_golden_devices_go_on_with_the_row_that_was_last() -> None:
    me = Member.from_bytes(LOSS.blob)
    verdict = me.detector.observe([40.0, 10.0, -4.0])
    assert (verdict.anomalous, verdict.alarm, verdict.event) == (True, False, 2)
    assert me.detector.events.open.rows == 3
    assert me.forget("fan-3")
    me = Member.from_bytes(DISTANCE.blob)
    verdict = me.detector.observe([1e6, 6.5])
    assert verdict.anomalous
    assert verdict.row.tolist() == [21.0, 6.5, 1e6, 6.5]
    assert me.forget("Lüfter 1")


@each_golden
def test_a_golden_file_is_written_again_byte_by_byte(golden: Golden) -> None:
    assert Member.from_bytes(golden.blob).to_bytes() == golden.blob
    assert Member.from_bytes(golden.resealed({}, {})).to_bytes() == golden.blob


@each_golden
def test_every_truncation_and_flipped_bit_of_a_golden_file_is_refused(golden: Golden) -> None:
    for blob in damaged(golden.blob):
        with pytest.raises(BadFile):
            Member.from_bytes(blob)


def test_evidence_is_no_state_and_a_state_is_no_evidence() -> None:
    evidence = Member.from_bytes(LOSS.blob).contribution().to_bytes()
    with pytest.raises(BadFile, match=r"holds 'elmgrove\.evidence', not 'elmgrove\.state'"):
        Member.from_bytes(evidence)
    with pytest.raises(BadFile, match=r"holds 'elmgrove\.state', not 'elmgrove\.evidence'"):
        Contribution.from_bytes(LOSS.blob)


# Sealed, but not by the rules: a golden file with other content and a checksum that fits


MEMORY = "detector/memory"
DETECTOR = LOSS.fields["detector"]
GATE, EVENTS = DETECTOR["memory"]["gate"], DETECTOR["memory"]["events"]
WRONG_FIELDS = [
    *((name, ...) for name in ("name", "detector", "heard")),
    *((f"detector/{name}", wrong) for name in DETECTOR for wrong in (..., "x", [None], -1)),
    *(
        (f"{MEMORY}/{path}/{name}", wrong)
        for path, known in (
            ("gate/recent", GATE["recent"]),
            ("gate/progress", GATE["progress"]),
            ("events/running", EVENTS["running"]),
            ("events/closed/0", EVENTS["closed"][0]),
            *((name, DETECTOR["memory"][name]) for name in DETECTOR["memory"]),
            ("drift/slow/test", DETECTOR["memory"]["drift"]["slow"]["test"]),
            ("drift/excess", DETECTOR["memory"]["drift"]["excess"]),
        )
        for name in known
        for wrong in (..., [None])
    ),
    *(
        (f"{MEMORY}/gate/progress/{name}", wrong)
        for name in GATE["progress"]
        for wrong in ("x", -1)
    ),
    *((f"{MEMORY}/gate/recent/{name}", "x") for name in GATE["recent"]),
    *((f"{MEMORY}/gate/recent/{name}", -1) for name in ("clock", "accepted", "nearly_missed")),
    ("name", ""),
    ("name", 5),
    ("name", "Lüfter 1"),
    ("heard", None),
    ("heard", 3),
    ("heard/0/origin", ...),
    ("heard/0/epoch", ...),
    ("heard/0/count", ...),
    ("heard/0/origin", "Lüfter 2"),
    ("heard/0/epoch", -1),
    ("detector/evidence/count", 10**400),
    ("detector/basis/layer/units", 4),
    ("detector/basis/layer/units", 10**6),
    ("detector/basis/outputs", 5),
    ("detector/basis/window", 4),
    ("detector/basis/score", "x"),
    ("detector/basis/features", ["a", "b", "c", "d"]),
    ("detector/threshold/kind", "quantile"),
    ("detector/threshold/rate", 0.0),
    ("detector/threshold/confidence", 1.0),
    ("detector/alarm/k", 4),
    (f"{MEMORY}/events/row", 7),
    (f"{MEMORY}/events/count", 1),
    (f"{MEMORY}/events/alarm/marks", [[8, 8, 4]] * 3),
    (f"{MEMORY}/events/closed", EVENTS["closed"] * 21),
    (f"{MEMORY}/events/running/strongest/0/0", None),
    (f"{MEMORY}/events/running/strongest/0/3/0/0", 5),
    (f"{MEMORY}/events/closed/0/causes/0/2", "x"),
    ("detector/quarantine", 1),
    ("detector/quarantine", 10**400),
    ("detector/forgetting", 2.0),
    (f"{MEMORY}/gate/limit", [1.25]),
    (f"{MEMORY}/gate/limit_until", 6.5),
    (f"{MEMORY}/gate/recent/factor", 0.0),
    (f"{MEMORY}/gate/recent/factor", "inf"),
    (f"{MEMORY}/gate/recent/level", -1.0),
    (f"{MEMORY}/increments/kept", [{"evidence": 5}]),
]


def wrong_arrays(golden: Golden) -> list[tuple[str, Any]]:
    # Each reading has an order of its own, and all processes need the same one.
    arrays, last = dict(sorted(golden.arrays.items())), ("last_rows", "waiting")
    short = {name: array[:-1] for name, array in arrays.items() if name not in last and len(array)}
    scores = "memory.gate.recent.scores"
    return [
        *((name, ...) for name in arrays if not name.endswith("centre")),
        # One number is a rarity that there could be.
        *((name, np.zeros(())) for name in arrays if not name.endswith((".latest", ".last"))),
        *((name, np.zeros((1, 2, 3))) for name in arrays),
        *((name, array) for name, array in short.items() if name not in REDUNDANT),
        (ROWS, arrays[ROWS][:, :2]),
        (ROWS, arrays[ROWS][:, :1]),
        (ROWS, np.zeros((513, arrays[ROWS].shape[1]))),
        (scores, arrays[scores][:, :1]),
        (scores, arrays[scores] + 0.5),
        (scores, np.full((1, 2), np.nan)),
        (WAITING, arrays[WAITING][:, :2]),
        (WAITING, np.zeros((9, arrays[WAITING].shape[1]))),
        ("last_rows", np.zeros((2, arrays["last_rows"].shape[1]))),
        ("last_rows", np.zeros((1, 7))),
        ("more", np.ones(1)),
    ]


#: Of which any number of rows is one that there could be.
REDUNDANT = ("memory.gate.recent.scores", "memory.gate.recent.near_misses")


WRONG = [
    *((golden, {path: value}, {}) for golden in GOLDENS for path, value in WRONG_FIELDS),
    *((golden, {}, {name: value}) for golden in GOLDENS for name, value in wrong_arrays(golden)),
    *(
        (LOSS, {path: value}, {})
        for path, value in [
            ("heard/0/energy", ...),
            ("heard/0/energy", 0.0),
            ("heard/0/origin", "fan-3"),
            ("detector/evidence/energy", 0.0),
            ("detector/basis/score", "distance"),
        ]
    ),
    *(
        (LOSS, {}, {name: value})
        for name, value in [
            ("U", -LOSS.arrays["U"]),
            ("heard.0.U", -LOSS.arrays["heard.0.U"]),
            ("heard.0.V", 100 * LOSS.arrays["heard.0.V"]),
            ("heard.2.U", LOSS.arrays["heard.1.U"]),
        ]
    ),
    *(
        (DISTANCE, {path: value}, {})
        for path, value in [
            ("published", ...),
            ("published/learned", -1),
            ("detector/basis/score", "loss"),
            ("detector/basis/window", 1),
            ("detector/basis/layer/activation", "tanh"),
            ("detector/learned", 0),
        ]
    ),
    *(
        (DISTANCE, {}, {name: value})
        for name, value in [
            ("e", -DISTANCE.arrays["e"]),
            ("e", DISTANCE.arrays["e"] / 4.0),
            ("s", 9.0 * DISTANCE.arrays["s"]),
            ("heard.0.C", 9.0 * DISTANCE.arrays["heard.0.C"]),
            ("heard.0.e", DISTANCE.arrays["heard.0.e"] - 3.0),
            ("centre", np.full(4, np.inf)),
            ("heard.0.centre", np.full(4, np.nan)),
            ("heard.1.C", DISTANCE.arrays["heard.0.C"]),
            ("waiting", DISTANCE.arrays["waiting"][:, :2]),
            ("waiting", np.zeros((257, 4))),
        ]
    ),
]


@pytest.mark.parametrize(
    ("golden", "fields", "arrays"),
    WRONG,
    ids=[
        f"{golden.name} {[*fields, *arrays][0]} {str([*fields.values(), *arrays.values()][0])[:10]}"
        for golden, fields, arrays in WRONG
    ],
)
def test_a_sealed_state_with_a_wrong_part_is_refused(
    golden: Golden, fields: dict[str, Any], arrays: dict[str, Any]
) -> None:
    with pytest.raises(BadFile, match="not as a state should be"):
        Member.from_bytes(golden.resealed(fields, arrays))


@each_golden
def test_a_state_that_does_not_merge_asks(golden: Golden) -> None:
    asking = {name: value for name, value in golden.fields.items() if name != "merges"}
    me = Member.from_bytes(seal(STATE_FORMAT, asking, golden.arrays))
    assert (me.merges, me.detector.received) == (False, None)
    assert [held.threshold for held in me.ledger] == [None] * len(golden.fields["heard"])
    assert len(me.detector.elsewhere) == 0
    assert (me.detector.loan is None) == (golden is LOSS)
