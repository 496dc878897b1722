"""A departure travels like a contribution and takes its place."""

import pytest

from elmgrove import BadFile, BadInput, Basis, Evidence, HiddenLayer
from elmgrove.federation import Contribution, Departure, entry_from_bytes
from elmgrove.federation.entries import DEPARTURE_FORMAT
from elmgrove.federation.sealed import seal

GONE = Departure("Lüfter 2", 7)
SAID = Contribution("Lüfter 2", 7, (Evidence.zero(Basis(HiddenLayer(3, 2, seed=1), 3)),))


@pytest.mark.parametrize("entry", [GONE, SAID, Departure("a", 0), Departure("a", 2**63 - 1)])
def test_an_entry_is_the_same_after_its_journey(entry: Departure | Contribution) -> None:
    assert entry_from_bytes(entry.to_bytes()) == entry
    assert type(entry).from_bytes(entry.to_bytes()) == entry


def test_one_kind_is_not_taken_for_the_other() -> None:
    with pytest.raises(BadFile, match=r"holds 'elmgrove\.evidence'"):
        Departure.from_bytes(SAID.to_bytes())
    with pytest.raises(BadFile, match=r"holds 'elmgrove\.departure'"):
        Contribution.from_bytes(GONE.to_bytes())


def test_every_truncation_and_flipped_bit_is_refused() -> None:
    blob = GONE.to_bytes()
    for place in range(len(blob)):
        flipped = bytearray(blob)
        flipped[place] ^= 1 << place % 8
        for damaged in (blob[:place], bytes(flipped)):
            with pytest.raises(BadFile):
                entry_from_bytes(damaged)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"origin": "a"},
        {"origin": "", "epoch": 1},
        {"origin": "a\n", "epoch": 1},
        {"origin": "a", "epoch": -1},
        {"origin": "a", "epoch": 2**63},
        {"origin": "a", "epoch": 1.0},
        {"origin": "a", "epoch": True},
        {"origin": 5, "epoch": 1},
        {"origin": "a", "epoch": 1, "more": 1},
    ],
)
def test_a_sealed_departure_with_wrong_fields_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadFile, match="not as a departure should be"):
        entry_from_bytes(seal(DEPARTURE_FORMAT, fields, {}))


@pytest.mark.parametrize(("origin", "epoch"), [("", 1), ("a" * 201, 1), ("a", -1), ("a", 2**63)])
def test_a_name_or_an_epoch_that_is_none_is_refused(origin: str, epoch: int) -> None:
    with pytest.raises(BadInput, match=r"origin|epoch"):
        Departure(origin, epoch)
