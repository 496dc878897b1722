"""Messages of rounds: they come back whole, or not at all."""

import numpy as np
import pytest

from elmgrove import BadFile, BadInput, Basis, HiddenLayer
from elmgrove.algebra.fed_elms import RoundModel, RoundUpdate, first_model
from elmgrove.rounds.messages import Reply, Task
from support.patterns import rows_of
from support.places import GOLDEN
from support.rounds import BASIS

MODEL = first_model(BASIS.layer, rows_of(0, 9, 12), rows_of(0, 9, 12))
MESSAGES = [
    Task("all", BASIS),
    Task("all", BASIS, 0.0, MODEL),
    Reply("c", BASIS, RoundUpdate(MODEL.beta, MODEL.P, 5)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was_and_altered_not_at_all(message: Task | Reply) -> None:
    blob = message.to_bytes()
    assert type(message).from_bytes(blob).to_bytes() == blob
    for place in range(0, len(blob), 37):
        altered = blob[:place] + bytes([blob[place] ^ 1]) + blob[place + 1 :]
        with pytest.raises(BadFile):
            type(message).from_bytes(altered)
    with pytest.raises(BadFile):
        type(message).from_bytes(blob[:-1])


@pytest.mark.parametrize(
    "model", [RoundModel(MODEL.beta, np.eye(4)), RoundModel(MODEL.beta * np.nan, MODEL.P)]
)
def test_a_model_that_does_not_fit_is_no_message(model: RoundModel) -> None:
    with pytest.raises(BadFile):
        Task.from_bytes(Task("all", BASIS, 0.0, model).to_bytes())


# Golden files: a new version of the format gets new ones beside them.


SMALL = Basis(HiddenLayer(2, 2, weights="binary", seed=35), 2, ("heat", "load"))
EXACT = RoundModel(np.array([[0.5, -1.0], [0.25, 2.0]]), np.array([[2.0, 0.5], [0.5, 1.0]]))
GOLDEN_MESSAGES = {
    "fans.task": Task("fans", SMALL, 0.0, EXACT),
    "fan-1.update": Reply("fan-1", SMALL, RoundUpdate(EXACT.beta, EXACT.P, 7)),
}


@pytest.mark.parametrize("name", GOLDEN_MESSAGES)
def test_the_golden_messages_are_read_and_written_as_they_were(name: str) -> None:
    message = GOLDEN_MESSAGES[name]
    blob = (GOLDEN / name).read_bytes()
    assert message.to_bytes() == blob
    read = type(message).from_bytes(blob)
    assert read.basis == SMALL
    if isinstance(read, Task):
        assert read.model is not None
        beta, P = read.model
        assert (read.federation, read.ridge) == ("fans", 0.0)
    else:
        beta, P, rows = read.update
        assert (read.origin, rows) == ("fan-1", 7)
    np.testing.assert_array_equal(beta, EXACT.beta, strict=True)
    np.testing.assert_array_equal(P, EXACT.P, strict=True)


def test_a_federation_in_rounds_has_no_own_units() -> None:
    basis = Basis.fitted(np.random.default_rng(0).normal(size=(9, 3)), None, scaling="own")
    with pytest.raises(BadInput, match="one scaling for all clients"):
        Task("fans", basis)
