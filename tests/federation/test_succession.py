"""Which entry may follow which."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove.federation import Outdated, Refused, Version, follows

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
def test_what_is_newer_is_stored(held: Version | None, new: Version) -> None:
    assert follows(held, new)


@pytest.mark.parametrize("held", [HELD, GONE])
def test_the_same_again_is_not_stored_again(held: Version) -> None:
    assert not follows(held, Version(held.epoch, held.count, held.digest))


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
