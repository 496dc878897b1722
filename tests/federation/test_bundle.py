"""Blobs that travel together come out as they went in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadFile
from elmgrove.federation import bundle, unbundle


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_what_is_bundled_comes_out_again(blobs: list[bytes]) -> None:
    assert list(unbundle(bundle(blobs))) == blobs


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.data())
def test_a_bundle_that_breaks_off_is_refused(blobs: list[bytes], data: st.DataObject) -> None:
    whole = bundle(blobs)
    ends = [len(bundle(blobs[:count])) for count in range(len(blobs) + 1)]
    cut = data.draw(st.sampled_from([n for n in range(len(whole)) if n not in ends]))
    with pytest.raises(BadFile, match="breaks off"):
        list(unbundle(whole[:cut]))


def test_a_length_beyond_all_memory_is_refused() -> None:
    with pytest.raises(BadFile, match="breaks off"):
        list(unbundle(b"\xff" * 8 + b"x"))
