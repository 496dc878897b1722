"""What devices put, what others get, and the sum that is kept ready of it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.federation.charter import Charter, address_of
from elmgrove.federation.contribution import EVIDENCE_FORMAT, Contribution, Departure, unbundle
from elmgrove.federation.merged import Merged
from elmgrove.federation.policy import UNBOUNDED, Terms
from elmgrove.server import live_sums
from elmgrove.server.store.contributions import Contributions
from support.factories import normal_rows
from support.golden import resealed
from support.serving import (
    ADMIN,
    LAYER,
    Federation,
    Server,
    central,
    charter,
    contents,
    fan_evidence,
    refused,
    seeded_contribution,
    serving,
)

ME, YOU, THIRD = "fan-1", "fan-2", "fan 3/ü"


def blobs(fans: Federation) -> list[bytes]:
    answer = fans.ask("GET", "/contributions", ADMIN)
    assert answer.status_code == 200
    return list(unbundle(answer.content))


def test_the_same_twice_is_once(server: Server, fans: Federation) -> None:
    first = fans.put(seeded_contribution(ME, 1))
    before = contents(server.store)
    again = fans.put(seeded_contribution(ME, 1))
    assert first.json() == again.json() == {"origin": ME, "epoch": 20, "revision": 1}
    assert first.headers["etag"] == again.headers["etag"]
    assert contents(server.store) == before


@pytest.mark.parametrize(
    ("next_one", "shrunk"),
    [
        (seeded_contribution(ME, 2, 20), False),  # the same epoch, other content
        (seeded_contribution(ME, 1, 20, epoch=19), False),  # older
        (seeded_contribution(ME, 1, 10, epoch=10), True),  # older, with fewer rows
        (seeded_contribution(ME, 1, 19, epoch=21), True),  # newer, with fewer rows
    ],
)
def test_what_can_not_follow_is_refused_with_the_epoch_that_is_held(
    server: Server, fans: Federation, next_one: Contribution, shrunk: bool
) -> None:
    fans.put(seeded_contribution(ME, 1))
    before = contents(server.store)
    problem = refused(fans.put(next_one), "outdated")
    assert (problem["held_epoch"], problem["shrunk"]) == (20, shrunk)
    assert contents(server.store) == before


GOOD = seeded_contribution(ME, 1, 30).to_bytes()


def forged(change: Callable[[dict[str, Any], dict[str, np.ndarray]], Any]) -> bytes:
    return resealed(EVIDENCE_FORMAT, GOOD, change)


def other_layer() -> bytes:
    layer = replace(LAYER, seed=4)
    return Contribution(ME, 30, (fan_evidence(normal_rows(1, 30), layer),)).to_bytes()


def larger_layer() -> bytes:
    layer = HiddenLayer(inputs=7, units=4)
    made = fan_evidence(np.ones((30, 7)), layer)
    return Contribution(ME, 30, (made,)).to_bytes()


def overflowing() -> bytes:
    made = fan_evidence(normal_rows(1, 30))
    return Contribution(ME, 30, (replace(made, V=made.V * 1e201, energy=1e300),)).to_bytes()


def set_entry(name: str, index: Any, value: float) -> bytes:
    return forged(lambda _, arrays: arrays[name].__setitem__(index, value))


def set_field(name: str, value: object) -> bytes:
    return forged(lambda fields, _: fields.__setitem__(name, value))


def set_threshold(text: bytes) -> bytes:
    """With a threshold that only JSON knows how to write."""
    return set_field("threshold", 12345.0).replace(b"12345.0", text)


def relabelled(old: bytes, new: bytes) -> bytes:
    """With another name for the kind of numbers in an array of none."""
    blob = forged(lambda _, arrays: arrays.__setitem__("W", np.ones(0)))
    end = 8 + int.from_bytes(blob[:8], "little")
    header = blob[8:end].rstrip()
    place = header.index(old, header.index(b'"W"'))
    header = header[:place] + new + header[place + len(old) :]
    return len(header).to_bytes(8, "little") + header + blob[end:]


BAD = {
    "nothing": (b"", 400, "not a file"),
    "garbage": (b"garbage", 400, "not a file"),
    "truncated": (GOOD[:-1], 400, "truncated"),
    "cut in the header": (GOOD[:100], 400, "damaged"),
    "with something after it": (GOOD + b"\0", 400, "damaged"),
    "altered": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), 400, "checksum"),
    "a departure": (Departure(ME, 31).to_bytes(), 400, "left"),
    "another layer": (other_layer(), 422, "seed: 3 here, 4 there"),
    "a larger layer": (larger_layer(), 422, "inputs: 6 here, 7 there"),
    "another fingerprint": (set_field("fingerprint", "0" * 32), 400, "field"),
    "not a number": (set_entry("U", 0, np.nan), 422, "not finite"),
    "infinite": (set_entry("V", (0, 0), np.inf), 422, "not finite"),
    "a negative diagonal": (set_entry("U", 0, -1.0), 422, "negative diagonal"),
    "not positive semidefinite": (set_entry("U", 1, 25.0), 422, "semidefinite"),
    "more than the rows give": (set_entry("U", 0, 31.0), 422, "can't give more"),
    "more than the energy": (set_field("energy", 1e-3), 422, "explain"),
    "negative energy": (set_field("energy", -1.0), 422, "negative"),
    "a negative threshold": (set_field("threshold", -1.0), 400, "threshold"),
    "a threshold in words": (set_field("threshold", "3"), 400, "threshold"),
    "a threshold that is no number": (set_threshold(b"    NaN"), 400, ""),
    "an infinite threshold": (set_threshold(b"1e99999"), 400, ""),
    "negative count": (set_field("count", -1.0), 422, "negative"),
    "too large": (set_field("count", 1e201), 422, "can't be added up"),
    "too large to be judged": (overflowing(), 422, "the evidence of 'fan-1'"),
    "count as text": (set_field("count", "30"), 400, "sealed"),
    "epoch as a fraction": (set_field("epoch", 30.0), 400, "epoch"),
    "epoch below 0": (set_field("epoch", -1), 400, "epoch"),
    "epoch of 64 bits": (set_field("epoch", 2**63), 400, "epoch"),
    "a field too many": (set_field("more", 1), 400, "field"),
    "origin of another": (seeded_contribution(YOU, 1, 30).to_bytes(), 403, "may not publish"),
    "origin with a NUL": (set_field("origin", f"{ME}\0"), 400, "printable"),
    # Only a triangle is sent, so that U can't be unsymmetric; both are the wrong length.
    "all of U": (
        forged(lambda _, arrays: arrays.__setitem__("U", np.ones(9))), 400, "triangle"
    ),
    "U as a square": (
        forged(lambda _, arrays: arrays.__setitem__("U", np.ones((3, 3)))), 400, "triangle"
    ),
    "V transposed": (
        forged(lambda _, arrays: arrays.__setitem__("V", np.ones((6, 3)))), 400, "V must be"
    ),
    "V of integers": (
        forged(lambda _, arrays: arrays.__setitem__("V", np.ones((3, 6), np.int64))),
        400,
        "V must be",
    ),
    "no V": (forged(lambda _, arrays: arrays.__delitem__("V")), 400, "'V'"),
    "an array too many": (
        forged(lambda _, arrays: arrays.__setitem__("W", np.ones(1))), 400, "array"
    ),
    "an empty array": (
        forged(lambda _, arrays: arrays.__setitem__("U", np.ones(0))), 400, ""
    ),
    "numbers of another kind": (GOOD.replace(b'"F64"', b'"I64"'), 400, ""),
    "numbers of no known kind": (GOOD.replace(b'"F64"', b'"F99"'), 400, ""),
    "numbers that numpy lacks": (relabelled(b'"F64"', b'"F8_E4M3"'), 400, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_a_contribution_of_the_device_changes_nothing(
    server: Server, fans: Federation, case: str
) -> None:
    blob, status, reason = BAD[case]
    fans.put(seeded_contribution(ME, 1))
    fans.put(seeded_contribution(YOU, 2))
    before, sums = contents(server.store), [fans.merged(name) for name in (ME, YOU, THIRD)]
    answer = fans.put_blob(ME, blob)
    assert answer.status_code == status, answer.text
    assert reason in answer.json()["detail"]
    assert contents(server.store) == before
    assert [fans.merged(name) for name in (ME, YOU, THIRD)] == sums
    assert fans.put_blob(ME, GOOD).status_code == 200


def test_contributions_are_got_one_by_one_some_or_all(fans: Federation) -> None:
    put = {
        name: seeded_contribution(name, seed).to_bytes()
        for seed, name in enumerate((ME, YOU, THIRD))
    }
    for name, blob in put.items():
        assert fans.put_blob(name, blob).status_code == 200
    for name, blob in put.items():
        got = fans.ask("GET", f"/contributions/{address_of(name)}", fans.keys[name])
        assert got.content == blob
        known = {"If-None-Match": got.headers["etag"]}
        again = fans.ask("GET", f"/contributions/{address_of(name)}", ADMIN, headers=known)
        assert (again.status_code, again.content) == (304, b"")
    assert blobs(fans) == [put[name] for name in sorted(put)]
    listed = fans.entries()
    assert list(listed) == sorted(put)
    assert {name: entry["size"] for name, entry in listed.items()} == {
        name: len(blob) for name, blob in put.items()
    }


def test_a_device_leaves_and_comes_back(fans: Federation) -> None:
    fans.put(seeded_contribution(ME, 1))
    fans.put(seeded_contribution(YOU, 2))
    where = f"/contributions/{ME}"
    assert fans.ask("DELETE", where, fans.keys[ME], params={"epoch": 21}).status_code == 204
    assert fans.ask("DELETE", where, fans.keys[ME], params={"epoch": 21}).status_code == 204
    refused(fans.ask("GET", where, fans.keys[ME]), "not-found")
    assert (fans.entries()[ME]["left"], fans.entries()[ME]["epoch"]) == (True, 21)
    assert blobs(fans)[1:] == [seeded_contribution(YOU, 2).to_bytes()]
    assert fans.merged(YOU).devices == 0
    # What was under way when it left does not bring it back.
    assert refused(fans.put(seeded_contribution(ME, 1)), "outdated")["held_epoch"] == 21
    # With fewer rows as well: it may have started again.
    assert fans.put(seeded_contribution(ME, 3, 5, epoch=22)).status_code == 200
    assert fans.merged(YOU).evidence.close_to(seeded_contribution(ME, 3, 5).evidence)
    # The administrator need not know the epoch.
    assert fans.ask("DELETE", where, ADMIN).status_code == 204
    assert (fans.entries()[ME]["left"], fans.entries()[ME]["epoch"]) == (True, 23)


def test_leaving_at_an_epoch_that_is_over_is_refused(server: Server, fans: Federation) -> None:
    def leave(who: str, **query: Any) -> httpx.Response:
        return fans.ask("DELETE", f"/contributions/{who}", fans.keys[who], params=query)

    fans.put(seeded_contribution(ME, 1))
    before = contents(server.store)
    assert refused(leave(ME, epoch=20), "outdated")["held_epoch"] == 20
    for epoch in ("", "-1", "1.5", "x", "²", "9" * 19, "9" * 100):
        assert "epoch" in refused(leave(ME, epoch=epoch), "malformed")["detail"]
    assert leave(YOU).status_code == 204, "it never published, and has nothing to leave"
    assert contents(server.store) == before


def assert_sum(fans: Federation, device: str, others: list[np.ndarray]) -> None:
    merged = fans.merged(device)
    assert merged.devices == len(others)
    assert merged.evidence.close_to(central(others), 1e-9)


def test_the_sum_is_that_of_central_training_without_the_own_part(fans: Federation) -> None:
    streams = {name: normal_rows(seed, 40) for seed, name in enumerate(fans.keys)}
    for name in fans.keys:
        assert_sum(fans, name, [])
    for number in (20, 40):  # the second time each replaces its first
        for name, X in streams.items():
            fans.put(Contribution(name, number, (fan_evidence(X[:number]),)))
    for name in fans.keys:
        assert_sum(fans, name, [X for other, X in streams.items() if other != name])
    whole = fans.ask("GET", "/merged", ADMIN).content
    assert whole == fans.ask("GET", "/merged", ADMIN).content


def test_an_unchanged_sum_is_not_sent_again(fans: Federation) -> None:
    def asked(tag: str | None) -> tuple[int, str]:
        headers = {} if tag is None else {"If-None-Match": tag}
        answer = fans.ask("GET", "/merged", fans.keys[ME], headers=headers)
        assert bool(answer.content) == (answer.status_code == 200)
        return answer.status_code, answer.headers["etag"]

    _, first = asked(None)
    assert asked(first) == (304, first)
    fans.put(seeded_contribution(ME, 1))
    assert asked(first) == (304, first)
    fans.put(seeded_contribution(YOU, 1))
    status, second = asked(first)
    assert (status, asked(second)) == (200, (304, second))
    fans.put(seeded_contribution(YOU, 1))  # the same again
    assert asked(second) == (304, second)
    fans.put(seeded_contribution(ME, 1, 30))
    assert asked(second) == (304, second)
    fans.ask("DELETE", f"/contributions/{YOU}", fans.keys[YOU])
    status, third = asked(second)
    assert (status, len({first, second, third})) == (200, 3)


def test_a_federation_made_again_is_not_taken_for_the_former_one(server: Server) -> None:
    tags = set()
    definition = charter()
    for seed, layer in ((1, LAYER), (2, LAYER), (3, replace(LAYER, seed=9))):
        fans = server.found(Charter(definition.name, Basis(layer, layer.inputs)))
        fans.enrol(ME, YOU)
        fans.put(Contribution(YOU, 20, (fan_evidence(normal_rows(seed), layer),)))
        answer = fans.ask("GET", "/merged", fans.keys[ME])
        tags.add(answer.headers["etag"])
        assert fans.merged(ME).evidence.close_to(fan_evidence(normal_rows(seed), layer))
        assert fans.ask("DELETE", "", ADMIN).status_code == 204
    assert len(tags) == 3


def test_the_sum_is_right_after_a_restart(database: str) -> None:
    with serving(database) as server:
        fans = server.found(charter())
        fans.enrol(ME, YOU, THIRD)
        for seed, name in enumerate(fans.keys):
            fans.put(seeded_contribution(name, seed))
        tag = fans.ask("GET", "/merged", fans.keys[ME]).headers["etag"]
    with serving(database) as server:
        fans = fans.at(server)
        known = {"If-None-Match": tag}
        assert fans.ask("GET", "/merged", fans.keys[ME], headers=known).status_code == 304
        assert_sum(fans, ME, [normal_rows(1), normal_rows(2)])
        fans.put(seeded_contribution(YOU, 1, 30))
        assert_sum(fans, ME, [normal_rows(1, 30), normal_rows(2)])


def test_the_sum_stays_right_over_many_replacements(fans: Federation) -> None:
    fans.put(Contribution(THIRD, 20, (fan_evidence(normal_rows(2) * 1e-3),)))
    for epoch in range(100):
        # Large ones come and go; what stays is small.
        X = normal_rows(1) if epoch == 99 else normal_rows(epoch) * 1e30
        assert fans.put(Contribution(YOU, epoch, (fan_evidence(X),))).status_code == 200
    assert_sum(fans, ME, [normal_rows(1), normal_rows(2) * 1e-3])


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_two_servers_on_one_data_base_give_one_sum(database: str) -> None:
    with serving(database) as first, serving(database) as second:
        here = first.found(charter())
        here.enrol(ME, YOU, THIRD)
        there = here.at(second)
        assert_sum(there, ME, [])
        for number in range(20, 30):
            here.put(seeded_contribution(YOU, 1, number))
            assert_sum(there, ME, [normal_rows(1, number)])
        there.put(seeded_contribution(THIRD, 2))
        assert_sum(here, ME, [normal_rows(1, 29), normal_rows(2)])


def test_what_came_and_went_unseen_leaves_no_rounding_behind(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_sums.LiveSet, "BETWEEN_LOOKS", 3600.0)
    with serving(database) as first, serving(database) as second:
        here = first.found(charter())
        here.enrol(ME, YOU, THIRD)
        there = here.at(second)
        here.put(seeded_contribution(THIRD, 2))
        assert_sum(there, ME, [normal_rows(2)])
        for epoch, X in enumerate((normal_rows(3) * 1e30, normal_rows(4) * 1e30, normal_rows(1))):
            here.put(Contribution(YOU, epoch, (fan_evidence(X),)))
        assert_sum(there, ME, [normal_rows(1), normal_rows(2)])


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_server_that_lagged_behind_adds_all_up_again(
    database: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Contributions, "KEEP", 40)
    # So that the second server does not look by itself in the meantime.
    monkeypatch.setattr(live_sums.LiveSet, "BETWEEN_LOOKS", 3600.0)
    caplog.set_level("INFO", "elmgrove.server")
    with serving(database) as first, serving(database) as second:
        here = first.found(charter())
        here.enrol(ME, YOU, THIRD)
        here.put(seeded_contribution(THIRD, 2))
        there = here.at(second)
        assert_sum(here, ME, [normal_rows(2)])
        assert_sum(there, ME, [normal_rows(2)])
        caplog.clear()
        names = [f"device {n}" for n in range(8)]
        here.enrol(*names)
        with ThreadPoolExecutor(8) as pool:
            for number in range(8):
                list(pool.map(partial(publish, here, number), names))
                # So that the first server, for its part, does not lag behind.
                assert here.merged(ME).devices == 9
        assert not caplog.records
        expected = [normal_rows(2)] + [normal_rows(sum(name.encode()), 7) for name in names]
        assert_sum(there, ME, expected)
        assert [record.message for record in caplog.records] == [
            f"{here.charter.name}: added up all 9 contributions"
        ]


def publish(fans: Federation, number: int, name: str) -> None:
    answer = fans.put(seeded_contribution(name, sum(name.encode()), number))
    assert answer.status_code == 200, answer.text


class Crowd:
    """Devices whose counts are digits of one number, so that a sum tells exactly who is in it."""

    def __init__(self, fans: Federation, versions: int) -> None:
        self.fans, self.versions = fans, versions
        self.place = {name: 1000**index for index, name in enumerate(fans.keys)}
        self.acknowledged = dict.fromkeys(fans.keys, 0)
        # A reader whose writers failed must not read for ever.
        self.end = time.monotonic() + 300

    def write(self, name: str) -> None:
        with self.fans.client(name) as http:
            for version in range(1, self.versions + 1):
                blob = self._contribution(name, version).to_bytes()
                answer = http.put(
                    f"{self.fans.path}/contributions/{address_of(name)}", content=blob
                )
                assert answer.status_code == 200, answer.text
                self.acknowledged[name] = version

    def read(self, name: str) -> None:
        seen: dict[str, int] = {}
        with self.fans.client(name) as http:
            while min(seen.get(other, 0) for other in self.place if other != name) < self.versions:
                assert time.monotonic() < self.end, "waited in vain"
                least = {**self.acknowledged, name: 0}
                before, seen = seen, self._taken_apart(http.get(f"{self.fans.path}/merged").content)
                assert seen[name] == 0, "its own part is in the sum"
                for other in self.place:
                    assert seen[other] >= max(least[other], before.get(other, 0))

    def _contribution(self, name: str, version: int) -> Contribution:
        count = float(version * self.place[name])
        zero = Evidence.zero(self.fans.charter.basis)
        # As of so many rows whose hidden outputs are all 1/2.
        return Contribution(
            name, version, (replace(zero, U=np.full_like(zero.U, count / 4), count=count),)
        )

    def _taken_apart(self, content: bytes) -> dict[str, int]:
        merged = Merged.from_bytes(content)
        number = int(merged.evidence.count)
        found = {name: number // place % 1000 for name, place in self.place.items()}
        assert (number / 4 == merged.evidence.U).all()
        assert merged.devices == sum(map(bool, found.values()))
        return found


def test_no_device_ever_gets_its_own_part_and_always_all_others(server: Server) -> None:
    # Some have a million times the rows of others, and all count.
    fans = server.found(charter(terms=UNBOUNDED))
    fans.enrol(ME, YOU, THIRD, "fan-4")
    crowd = Crowd(fans, versions=40)
    with ThreadPoolExecutor(2 * len(fans.keys)) as pool:
        tasks = [pool.submit(do, name) for name in fans.keys for do in (crowd.write, crowd.read)]
        for task in tasks:
            task.result()


def claiming(origin: str, count: float, epoch: int) -> Contribution:
    """What a device says that claims so many rows."""
    return Contribution(origin, epoch, (fan_evidence(normal_rows(epoch)).weighted(count / 20),))


def test_a_device_that_counts_with_less_than_it_states_is_named_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    fans = server.found(charter(terms=Terms(most_rows=5000)))
    names = [ME, YOU, THIRD, "liar"]
    fans.enrol(*names)
    for epoch, name in enumerate(names[:3], start=1):
        fans.put(claiming(name, 500, epoch))
    assert {entry["weight"] for entry in fans.entries().values()} == {1.0}
    for epoch in (10, 11):
        fans.put(claiming("liar", 1e9 * epoch, epoch))
        entry = fans.entries()["liar"]
        assert entry["count"] == pytest.approx(1e9 * epoch)
        assert entry["weight"] * entry["count"] == pytest.approx(5000)
        assert entry["why"] == "at most 5,000 rows of a device count"
        assert fans.entries()[ME] | {"weight": 1.0, "why": None} == fans.entries()[ME]
    (told,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "'liar' counts as" in told
    assert fans.merged(ME).evidence.count == pytest.approx(2 * 500 + 5000)
    # For itself a device is no other.
    assert fans.merged("liar").evidence.count == pytest.approx(3 * 500)
    fans.ask("DELETE", "/contributions/liar", fans.keys["liar"])
    assert fans.merged(ME).evidence.count == pytest.approx(2 * 500)
    assert fans.entries()["liar"]["weight"] == 1.0
