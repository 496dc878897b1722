"""Messages of rounds: they come back whole, or not at all."""

import numpy as np
import pytest

from elmgrove import BadFile, BadInput, Basis, HiddenLayer
from elmgrove.algebra.fed_elms import RoundModel, first_model
from elmgrove.rounds.compact import CompactModel
from elmgrove.rounds.messages import ROUND_FORMAT, RoundMessage
from elmgrove.storage.sealed import seal, unseal
from support.patterns import rows_of
from support.places import GOLDEN
from support.rounds import BASIS

MODEL = first_model(BASIS.layer, rows_of(0, 9, 12), rows_of(0, 9, 12))
COMPACT = RoundMessage("c", BASIS, CompactModel.of(MODEL), 5)
MESSAGES = {
    "without a model": RoundMessage("all", BASIS),
    "64 bits": RoundMessage("c", BASIS, MODEL, 5),
    "8 bits": COMPACT,
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_back_as_it_was_and_altered_not_at_all(name: str) -> None:
    message = MESSAGES[name]
    blob = message.to_bytes()
    came = RoundMessage.from_bytes(blob)
    assert came.to_bytes() == blob
    assert (came.sender, came.basis, came.rows) == (message.sender, BASIS, message.rows)
    if message.model is not None:
        np.testing.assert_array_equal(came.state.beta, message.state.beta)
        np.testing.assert_array_equal(came.state.P, message.state.P)
    for place in range(0, len(blob), 37):
        altered = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
        with pytest.raises(BadFile):
            RoundMessage.from_bytes(altered)
    with pytest.raises(BadFile):
        RoundMessage.from_bytes(blob[:-1])


@pytest.mark.parametrize(
    "model", [RoundModel(MODEL.beta, np.eye(4)), RoundModel(MODEL.beta * np.nan, MODEL.P)]
)
def test_a_model_that_does_not_fit_is_no_message(model: RoundModel) -> None:
    with pytest.raises(BadFile):
        RoundMessage.from_bytes(RoundMessage("all", BASIS, model).to_bytes())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("beta", lambda a: a[:, :2]),
        ("beta", lambda a: a.astype(np.int16)),
        ("beta", lambda a: np.full_like(a, -128)),
        ("beta.scale", lambda a: -a),
        ("beta.scale", lambda a: a * np.float32(np.nan)),
        ("C", lambda a: a[1:]),
        ("C", np.zeros_like),
        ("C.scale", lambda a: a[:, :1]),
    ],
)
def test_sealed_but_wrong_arrays_are_refused(name: str, change: object) -> None:
    fields, arrays = unseal(ROUND_FORMAT, COMPACT.to_bytes())
    arrays[name] = change(arrays[name])  # type: ignore[operator]  # one of the functions above
    with pytest.raises(BadFile, match="a message of a round"):
        RoundMessage.from_bytes(seal(ROUND_FORMAT, fields, arrays))


@pytest.mark.parametrize(
    "change", [{"rows": -1}, {"rows": "many"}, {"rows": None}, {"fingerprint": "0"}, {"more": 1}]
)
def test_sealed_but_wrong_fields_are_refused(change: dict[str, object]) -> None:
    fields, arrays = unseal(ROUND_FORMAT, COMPACT.to_bytes())
    with pytest.raises(BadFile, match="a message of a round"):
        RoundMessage.from_bytes(seal(ROUND_FORMAT, fields | change, arrays))


def test_a_federation_in_rounds_has_no_own_units() -> None:
    basis = Basis.fitted(np.random.default_rng(0).normal(size=(9, 3)), None, scaling="own")
    with pytest.raises(BadInput, match="one scaling for all clients"):
        RoundMessage("fans", basis)


# Golden files: a new version of the format gets new ones beside them.


SMALL = Basis(HiddenLayer(2, 2, weights="binary", seed=35), 2, ("heat", "load"))
EXACT = RoundModel(np.array([[0.5, -1.0], [0.25, 2.0]]), np.array([[2.0, 0.5], [0.5, 1.0]]))
GOLDEN_MESSAGES = {
    "fans.round": RoundMessage("fans", SMALL),
    "fan-1.round": RoundMessage("fan-1", SMALL, EXACT, 7),
    "fan-1-8-bits.round": RoundMessage("fan-1", SMALL, CompactModel.of(EXACT), 7),
}


@pytest.mark.parametrize("name", GOLDEN_MESSAGES)
def test_the_golden_messages_are_read_and_written_as_they_were(name: str) -> None:
    message, blob = GOLDEN_MESSAGES[name], (GOLDEN / name).read_bytes()
    assert message.to_bytes() == blob
    read = RoundMessage.from_bytes(blob)
    assert (read.sender, read.basis, read.rows) == (message.sender, SMALL, message.rows)
    if name == "fan-1.round":
        np.testing.assert_array_equal(read.state.beta, EXACT.beta, strict=True)
        np.testing.assert_array_equal(read.state.P, EXACT.P, strict=True)
