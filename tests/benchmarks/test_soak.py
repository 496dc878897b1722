"""What a soak would call lost or wrong: its checks find what they are for."""

import hashlib
import os
from pathlib import Path

import pytest
from benchmarks.soak.checks import Acknowledged, is_sum, lost
from benchmarks.soak.disk import SmallDisk
from benchmarks.soak.server import Stored

from elmgrove.federation.contribution import Contribution, Ledger
from elmgrove.federation.merged import Merged
from support.serving import seeded_contribution


def acknowledged(entry: Contribution) -> Acknowledged:
    return Acknowledged(entry.epoch, hashlib.sha256(entry.to_bytes()).hexdigest())


def test_lost_is_what_the_store_has_neither_as_it_was_nor_newer() -> None:
    entry = seeded_contribution("a", 1)
    blob, other = entry.to_bytes(), seeded_contribution("a", 2, epoch=entry.epoch).to_bytes()
    told = {"a": acknowledged(entry)}
    for stored in ({}, {"a": Stored(19, blob)}, {"a": Stored(20, other)}, {"a": Stored(20, None)}):
        assert lost(told, stored) == ["a"]
    for stored in ({"a": Stored(20, blob)}, {"a": Stored(21, other)}, {"a": Stored(21, None)}):
        assert lost(told, stored) == []
    left = {"a": Acknowledged(20, "left")}
    assert lost(left, {"a": Stored(20, None)}) == []
    assert lost(left, {"a": Stored(20, blob)}) == ["a"]


def test_a_sum_is_wrong_with_one_too_few_one_too_many_or_one_that_is_another() -> None:
    entries = [seeded_contribution(name, number) for number, name in enumerate("abc")]
    total = Ledger(entries).total()
    assert total is not None
    told = Merged("fans", 1, 3, (total,))
    assert is_sum(told, entries)
    assert not is_sum(told, entries[:2])
    assert not is_sum(told, [*entries, seeded_contribution("d", 4)])
    assert not is_sum(told, [*entries[:2], seeded_contribution("c", 9)])
    nobody = Merged("fans", 1, 0, (total - total,))
    assert is_sum(nobody, [])
    assert not is_sum(nobody, entries)


@pytest.mark.parametrize("mounted", [True, False])
def test_a_small_disk_fills_and_empties(
    tmp_path: Path, mounted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not mounted:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    disk, big = SmallDisk(tmp_path / "small", megabytes=1), bytes(10_000)
    if mounted and not disk.mounted:
        pytest.skip("may not mount a file system here")
    try:
        disk.fill()
        disk.hold([os.getpid()])
        with pytest.raises(OSError, match=r"space|large"):
            (disk.path / "state").write_bytes(big)
        disk.empty()
        disk.hold([os.getpid()])
        assert (disk.path / "state").write_bytes(big) == len(big)
    finally:
        disk.empty()
        disk.hold([os.getpid()])
        disk.close()
    assert (disk.fills, disk.is_full) == (1, False)
