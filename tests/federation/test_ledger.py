"""A ledger keeps the newest of each origin, however it came; an exchange, what may follow."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove.errors import Outdated, Refused
from elmgrove.federation.contribution import (
    Contribution,
    Departure,
    Entry,
    Ledger,
    Version,
    follows,
)
from support.factories import contribution_from
from support.laws import law_examples


def otherwise(origin: str, epoch: int) -> Contribution:
    """What the device says at that epoch after its state was restored and it learned again."""
    return Contribution(origin, epoch, (contribution_from("x", epoch + 1).evidence,))


def content(ledger: Ledger) -> list[bytes]:
    return [held.to_bytes() for held in ledger.entries]


SAID = [contribution_from(origin, epoch) for origin in "abc" for epoch in (0, 1, 5)]
LEFT = [Departure(origin, epoch) for origin in "abc" for epoch in (1, 5, 6)]
AGAIN = [otherwise(origin, epoch) for origin in "abc" for epoch in (1, 5)]
newest_of_all = [contribution_from(origin, 5) for origin in "abc"]
some = st.lists(st.sampled_from(SAID + LEFT + AGAIN), max_size=12)


@settings(max_examples=law_examples(50), deadline=None)
@given(some, st.randoms())
def test_order_and_repetition_do_not_show(heard: list[Entry], random: object) -> None:
    shuffled = [*heard, *heard]
    random.shuffle(shuffled)
    ledger, other = Ledger(heard), Ledger(shuffled)
    assert content(ledger) == content(other)
    assert ledger.total() == other.total()


@settings(max_examples=law_examples(50), deadline=None)
@given(some, some, some)
def test_joining_ledgers_is_idempotent_commutative_and_associative(
    a: list[Entry], b: list[Entry], c: list[Entry]
) -> None:
    def joined(*parts: list[Entry]) -> Ledger:
        return Ledger(held for part in parts for held in Ledger(part).entries)

    assert content(joined(a, a)) == content(Ledger(a))
    assert content(joined(a, b)) == content(joined(b, a))
    left, right = joined(joined(a, b).entries, c), joined(a, joined(b, c).entries)
    assert content(left) == content(right) == content(Ledger([*a, *b, *c]))


def test_join_says_whether_there_was_news() -> None:
    ledger = Ledger()
    assert ledger.join(contribution_from("a", 1))
    assert not ledger.join(contribution_from("a", 1))
    assert not ledger.join(contribution_from("a", 0))
    assert ledger.join(contribution_from("a", 5))
    assert [held.epoch for held in ledger] == [5]


# Departures


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        (
            [Departure("b", 5), contribution_from("b", 1), contribution_from("b", 5)],
            Departure("b", 5),
        ),
        ([Departure("b", 5), Departure("b", 4)], Departure("b", 5)),
        ([Departure("b", 4), contribution_from("b", 5)], contribution_from("b", 5)),
        ([contribution_from("b", 5), Departure("b", 5)], Departure("b", 5)),
        ([contribution_from("b", 5), contribution_from("b", 1)], contribution_from("b", 5)),
    ],
)
def test_the_newest_is_kept_and_of_equal_epochs_the_departure(
    entries: list[Entry], kept: Entry
) -> None:
    assert Ledger(entries).entries == Ledger(reversed(entries)).entries == [kept]


def test_a_departure_takes_the_place_of_what_was_contributed() -> None:
    ledger = Ledger(newest_of_all)
    assert ledger.join(Departure("b", 6))
    assert "b" not in ledger
    assert [held.origin for held in ledger] == ["a", "c"]
    assert len(ledger) == 2
    assert ledger.total() == Ledger([contribution_from("a", 5), contribution_from("c", 5)]).total()
    assert ledger.departures == [Departure("b", 6)]
    assert ledger.entries == [
        contribution_from("a", 5),
        Departure("b", 6),
        contribution_from("c", 5),
    ]
    assert ledger.get("b") == Departure("b", 6)
    assert ledger.get("z") is None


def test_a_departure_is_not_forgotten_with_what_was_contributed() -> None:
    ledger = Ledger([Departure("b", 5)])
    assert not ledger.forget("b")
    assert ledger.departures == [Departure("b", 5)]


# Which entry may follow which

HELD = Version(10, 8.0, "a")
GONE = Version(10, None, "a")


@pytest.mark.parametrize(
    ("held", "new"),
    [
        (None, Version(0, 0.0, "a")),
        (None, Version(0, None, "a")),
        (HELD, Version(11, 8.0, "b")),
        (HELD, Version(11, 9.0, "b")),
        (HELD, Version(11, 8.0 * (1 - 1e-12), "b")),
        (HELD, Version(11, None, "b")),
        (GONE, Version(11, 1.0, "b")),
        (GONE, Version(11, None, "b")),
    ],
)
def test_what_is_newer_is_stored_once(held: Version | None, new: Version) -> None:
    assert follows(held, new)
    assert not follows(new, new)


@pytest.mark.parametrize(
    ("held", "new", "shrunk"),
    [
        (HELD, Version(10, 8.0, "b"), False),
        (HELD, Version(9, 9.0, "b"), False),
        (HELD, Version(9, 7.0, "b"), True),
        (HELD, Version(11, 7.0, "b"), True),
        (HELD, Version(10, None, "b"), False),
        (GONE, Version(10, 1.0, "b"), False),
        (GONE, Version(9, None, "b"), False),
    ],
)
def test_what_is_older_or_less_is_refused_with_what_to_do(
    held: Version, new: Version, shrunk: bool
) -> None:
    with pytest.raises(Outdated) as refused:
        follows(held, new)
    assert isinstance(refused.value, Refused)
    assert (refused.value.held_epoch, refused.value.shrunk) == (10, shrunk)


versions = st.builds(
    Version, st.integers(0, 5), st.none() | st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from("ab")
)


@given(st.lists(versions, max_size=12))
def test_epochs_only_rise_and_rows_only_grow_unless_the_device_left(news: list[Version]) -> None:
    held: Version | None = None
    for new in news:
        try:
            stored = follows(held, new)
        except Outdated:
            continue
        if stored and held is not None:
            assert new.epoch > held.epoch
            assert None in (held.count, new.count) or new.count >= held.count
        if stored:
            held = new
        assert (held.epoch, held.digest) == (new.epoch, new.digest)
