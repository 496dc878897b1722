"""Fingerprints depend on the settings alone; differences can be read by a person."""

import pytest

from elmgrove.algebra.layer import differences, fingerprint


def test_the_fingerprint_of_a_setting_never_changes() -> None:
    # Files and messages hold it: another value here is another format.
    fields = {"units": 4, "name": "ventilator-3 °C", "scale": [0.1, 1e300], "none": None}
    assert fingerprint(fields) == "893cb44e66e62bc747481c97466db64a"


def test_the_order_of_the_fields_does_not_matter() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2, "d": 3}}) == fingerprint(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )


@pytest.mark.parametrize(
    "other", [{"a": [1.0, 2.0]}, {"a": [2.0, 1.0 + 2**-52]}, {"b": [2.0, 1.0]}, {"a": None}, {}]
)
def test_any_change_shows(other: dict[str, object]) -> None:
    assert fingerprint({"a": [2.0, 1.0]}) != fingerprint(other)


def test_it_is_32_hexadecimal_digits() -> None:
    assert len(fingerprint({})) == 32
    assert set(fingerprint({})) <= set("0123456789abcdef")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_can_not_hold_has_no_fingerprint(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        fingerprint({"a": value})


def test_equal_settings_have_no_differences() -> None:
    assert differences({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}) == []


def test_a_nested_field_is_named_by_its_path() -> None:
    here = {"layer": {"seed": 1, "units": 2}, "outputs": 3}
    there = {"layer": {"seed": 5, "units": 2}, "outputs": 4}
    assert differences(here, there) == [
        "layer.seed: 1 here, 5 there",
        "outputs: 3 here, 4 there",
    ]


def test_a_list_is_named_by_its_first_entry_that_differs() -> None:
    assert differences({"features": ["a", "b", "c"]}, {"features": ["a", "x", "y"]}) == [
        "features[1]: 'b' here, 'x' there (and 1 more)"
    ]


def test_lists_of_different_length_are_named_by_their_length() -> None:
    assert differences({"features": ["a", "b"]}, {"features": ["a"]}) == [
        "features: 2 values here, 1 values there"
    ]


def test_a_field_that_one_side_lacks_shows() -> None:
    assert differences({"a": 1}, {}) == ["a: 1 here, None there"]
    assert differences({}, {"a": {"b": 1}}) == ["a: None here, {'b': 1} there"]


def test_long_values_are_cut() -> None:
    (line,) = differences({"a": "x" * 500}, {"a": "y"})
    assert line.endswith("… here, 'y' there")
    assert len(line) < 100
