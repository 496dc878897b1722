"""A charter says the same to every device, and which devices and entries may come in."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, Evidence, HiddenLayer, NotAdmissible, Scaling
from elmgrove.errors import Refused
from elmgrove.federation.charter import LARGEST, Charter, address_of
from elmgrove.federation.contribution import Contribution, Departure
from elmgrove.federation.policy import Terms

LAYER = HiddenLayer(3, 2, activation="tanh", seed=1)
BASIS = Basis(LAYER, 3, ("a", "b", "ü"), Scaling.minmax([0, 0, 0], [1, 2, 3]))
DISTANT = Basis(replace(LAYER, activation="identity"), 12, window=4, score="distance")
CHARTER = Charter("fans", BASIS, ridge=0.25, members=("fan-*", "pump"))


def zero(origin: str, basis: Basis = BASIS) -> Contribution:
    return Contribution(origin, 1, (Evidence.zero(basis),))


@pytest.mark.parametrize(
    "charter",
    [CHARTER, Charter("x", Basis(LAYER, 3)), replace(CHARTER, members=()), Charter("x", DISTANT)],
)
def test_a_charter_is_the_same_after_its_journey(charter: Charter) -> None:
    assert Charter.from_fields(json.loads(json.dumps(charter.fields))) == charter


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": name} for name in ("", "a b", "-a", "a" * 65, "a/b", 5, None)),
        *({"ridge": ridge} for ridge in (-1, float("nan"), float("inf"), "1", None)),
        *({"members": members} for members in ("fan-*", 5, [5], [None], "")),
        {"basis": {}},
        {"basis": None},
        {"basis": Basis(LAYER, 2).fields},
        {"basis": {**BASIS.fields, "window": 0}},
        {"basis": {**BASIS.fields, "window": 2}},
        {"basis": {**BASIS.fields, "score": "distance"}},
        {"basis": {**BASIS.fields, "score": "error"}},
        {"fingerprint": "0" * 64},
        {"fingerprint": None},
        None,
        [],
        "x",
    ],
    ids=repr,
)
def test_a_definition_with_a_wrong_part_is_refused(wrong: Any) -> None:
    with pytest.raises(BadInput):
        Charter.from_fields({**CHARTER.fields, **wrong} if isinstance(wrong, dict) else wrong)


def test_what_is_not_stated_is_as_usual_but_for_name_and_basis() -> None:
    fields = {"name": "x", "basis": BASIS.fields}
    assert Charter.from_fields(fields) == Charter("x", BASIS, 1e-3, None)
    for missing in fields:
        with pytest.raises(BadInput, match=missing):
            Charter.from_fields({name: fields[name] for name in fields if name != missing})


def test_one_string_is_no_list_of_patterns() -> None:
    """Letter by letter, its star would let everybody in."""
    with pytest.raises(BadInput, match="list of patterns"):
        Charter("fans", BASIS, members="fan-*")


def test_patterns_say_which_devices_may_join() -> None:
    names = ("fan-1", "fan-", "Fan-1", "pump", "pump-1")
    assert [name for name in names if CHARTER.admits(name)] == ["fan-1", "fan-", "pump"]
    assert replace(CHARTER, members=None).admits("anyone")
    assert not replace(CHARTER, members=()).admits("anyone")


@pytest.mark.parametrize("entry", [zero("pump-1"), Departure("pump-1", 1)])
def test_a_device_that_may_not_join_is_refused_by_name(entry: Contribution | Departure) -> None:
    with pytest.raises(Refused, match=r"'pump-1'.*'fans'"):
        CHARTER.require(entry)


def test_what_no_rows_can_give_and_what_no_sum_can_hold_is_not_admissible() -> None:
    with pytest.raises(NotAdmissible, match="'pump'"):
        CHARTER.require(
            Contribution("pump", 1, (Evidence(BASIS, -np.eye(2), np.zeros((2, 3)), 1, 1),))
        )
    for energy, count in ((LARGEST, 1), (1, LARGEST)):
        large = Evidence(BASIS, np.eye(2), np.zeros((2, 3)), energy, count)
        assert large.admissible()
        with pytest.raises(NotAdmissible, match="added up"):
            CHARTER.require(Contribution("pump", 1, (large,)))


def test_a_device_starts_as_the_charter_says_with_its_own_settings_beside() -> None:
    member = CHARTER.start("fan-1", warmup=5, forgetting=0.5)
    assert (member.name, member.detector.learned, member.shared) == ("fan-1", 0, None)
    assert member.detector.basis == BASIS
    assert (member.detector.model.ridge, member.detector.gate.warmup) == (0.25, 5)


# Names in URLs and files


@given(st.text(st.characters(codec="utf-8"), max_size=30), st.text(max_size=30))
def test_addresses_are_plain_and_each_devices_own(one: str, other: str) -> None:
    try:
        address = address_of(one)
    except BadInput:
        assert not one.isprintable() or one.startswith(".") or not one or len(one.encode()) > 66
        return
    assert address.isascii()
    assert not set(address) & set('/\\:*?"<>| ')
    try:
        assert (address_of(other) == address) == (other == one)
    except BadInput:
        assert other != one


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a\n", "a\x00", "\ud800", "ü" * 34])
def test_a_name_that_makes_no_address_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="device's name"):
        address_of(name)


@pytest.mark.parametrize(("name", "address"), [("fan-1", "fan-1"), ("a b/ü", "a%20b%2F%C3%BC")])
def test_addresses_are_those_of_urls(name: str, address: str) -> None:
    assert address_of(name) == address


@pytest.mark.parametrize("missing", ["window", "score"])
def test_a_charter_of_before_0_2_is_refused_by_its_age(missing: str) -> None:
    old = {name: value for name, value in BASIS.fields.items() if name != missing}
    with pytest.raises(BadInput, match=rf"{missing}.*before 0\.2"):
        Charter.from_fields({"name": "x", "basis": old})


# Terms: what a key shows, and what one device can weigh


@pytest.mark.parametrize("terms", [Terms(), Terms(3, None, 30.0)], ids=repr)
def test_terms_are_the_same_after_their_journey(terms: Terms) -> None:
    assert Terms.from_fields(json.loads(json.dumps(terms.fields))) == terms


@pytest.mark.parametrize(
    "wrong",
    [
        *({"least": least} for least in (0, -1, 1.5, True, "2", None, 2**40)),
        *({"most_rows": rows} for rows in (0, -1, float("nan"), float("inf"), True, "5")),
        {"shows": "contributions"},
        {"key_days": 0},
        {"key_days": 1e9},
        {"key_days": "30"},
        {"unheard": 1},
        [],
        None,
    ],
    ids=repr,
)
def test_terms_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(BadInput):
        Terms.from_fields(wrong)
