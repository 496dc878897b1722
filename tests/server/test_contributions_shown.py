"""What a device's key reads of others: sums, of as many devices as the federation's terms say."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer
from elmgrove.algebra.moments import zero_evidence
from elmgrove.federation.charter import Charter
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from elmgrove.federation.policy import Terms
from support.factories import DISTANT, cloud, distance_contribution, normal_rows
from support.reconstruction import off, on_and_off, singled_out
from support.serving import (
    ADMIN,
    Federation,
    Server,
    charter,
    fan_evidence,
    refused,
    seeded_contribution,
)

ME, YOU, THIRD = "fan-1", "fan-2", "fan-3"


def federation(server: Server, *names: str, **more: Any) -> Federation:
    """Some devices, each of which said something."""
    made = server.found(charter(**more))
    made.enrol(*names)
    for seed, name in enumerate(names):
        assert made.put(seeded_contribution(name, seed)).status_code == 200
    return made


def merged_at(made: Federation, path: str, secret: str, **query: str) -> Merged:
    answer = made.ask("GET", path, secret, params=query)
    assert answer.status_code == 200, answer.text
    return Merged.from_bytes(answer.content)


def test_a_key_reads_no_contribution_but_its_own(server: Server) -> None:
    fans = federation(server, ME, YOU)
    for asked in (f"/contributions/{YOU}", "/contributions/nobody", "/contributions"):
        detail = refused(fans.ask("GET", asked, fans.keys[ME]), "forbidden")["detail"]
        assert "administrator" in detail


def test_a_sum_over_too_few_is_not_told(server: Server) -> None:
    fans = federation(server, ME, YOU, THIRD, terms=Terms(least=2))
    total = fan_evidence(normal_rows(1)) + fan_evidence(normal_rows(2))
    assert merged_at(fans, "/merged", fans.keys[ME]).evidence.close_to(total, 1e-12)
    assert fans.ask("DELETE", f"/contributions/{THIRD}", ADMIN).status_code == 204
    for path, query in (
        ("/merged", {}),
        *(("/merged", {"merge": rule}) for rule in ("group", "quality", YOU)),
        ("/merged", {"patterns": "true"}),
        *(("/others", {"merge": rule}) for rule in ("everyone", "group", "quality", YOU)),
    ):
        nothing = merged_at(fans, path, fans.keys[ME], **query)
        assert (nothing.devices, nothing.evidence.count, nothing.loans) == (0, 0.0, ())
    assert merged_at(fans, "/merged", ADMIN, without=ME).devices == 1, "administrators read all"


@pytest.fixture
def alike(server: Server) -> Iterator[Federation]:
    """Two pumps of one kind, two of another, and one that is like none."""
    made = server.found(Charter(f"pumps-{id(server)}", DISTANT, terms=Terms(least=2)))
    kinds = {"a1": 1, "a2": 1, "b1": 2, "b2": 2, "c1": 3, "d1": 4}
    made.enrol(*kinds)
    for noise, (name, kind) in enumerate(kinds.items()):
        # One without alarms would not be named.
        watching = replace(distance_contribution(name, cloud(kind, noise)), threshold=3.0)
        assert made.put(watching).status_code == 200
    yield made
    made.ask("DELETE", "", ADMIN)


def test_groups_of_too_few_are_left_out(alike: Federation) -> None:
    seen = merged_at(alike, "/others", alike.keys["d1"])
    # If both were told, c1 alone would be what the sum over everybody leaves over.
    assert [label.names for label in seen.labels] == [("a1", "a2")]
    for kind, others in (("a1", "a2"), ("b1", "b2")):
        back = merged_at(alike, "/merged", alike.keys[kind], merge="group")
        assert back.devices == 0, f"of its own kind there is {others} alone"


@pytest.mark.parametrize(
    ("names", "used"),
    [
        ("a2", ()),
        ("a2,b1,b2,c1", ()),
        ("a2,b1", ("a2", "b1")),
        ("a2,b1,b2,c1,d1", ("a2", "b1", "b2", "c1", "d1")),
    ],
)
def test_names_are_as_many_as_a_sum_is_of_and_so_are_those_left_out(
    alike: Federation, names: str, used: tuple[str, ...]
) -> None:
    """Else the sum over all without that over these would be one device's."""
    for path in ("/merged", "/others"):
        found = merged_at(alike, path, alike.keys["a1"], merge=names)
        assert found.used == used
        if not used:
            assert dict(found.left_out)["a2"] == "sums are of 2 devices or more here"
            assert (found.evidence.count, found.loans) == (0.0, ())


def test_one_device_is_not_what_all_others_leave_over(alike: Federation) -> None:
    for name, key in alike.keys.items():
        total = merged_at(alike, "/merged", key)
        seen = merged_at(alike, "/others", key)
        kept = sum(part.count for part in seen.parts)
        left = total.evidence.count - kept
        assert left == 0 or left >= 2 * 600, (name, left)
        for loan in seen.loans:
            assert loan.count > 1.5, "nobody lends alone"


# What a device's key computes of another's rows, in a federation of six as it is made

NAMES = [f"fan-{number}" for number in range(6)]
SPY, VICTIM = NAMES[0], NAMES[3]


@pytest.mark.parametrize("path", ["/merged", "/others"])
@pytest.mark.parametrize("guarded", [False, True])
def test_sums_over_others_do_not_give_rows_away(server: Server, path: str, guarded: bool) -> None:
    """Without the guard they do, at an upload each 60 rows: as many as it asked for before."""
    basis = Basis(HiddenLayer(8, 8), 8, score="distance")
    fans = server.found(Charter(f"six-{path[1:]}-{guarded}".lower(), basis))
    fans.enrol(*NAMES)

    def put(member: Member) -> None:
        given = member.offer(guarded=guarded)
        assert given is not None
        assert fans.put(given).status_code == 200

    members = {name: fans.charter.start(name) for name in NAMES}
    for seed, member in enumerate(members.values()):
        member.detector.learn_many(on_and_off(600 + seed, 0.01))
        put(member)
    rows, found = on_and_off(40 * 60, 0.01), set[int]()
    before = sum(merged_at(fans, path, fans.keys[SPY]).parts, zero_evidence(basis))
    for start in range(0, len(rows), 60):
        members[VICTIM].detector.learn_many(rows[start : start + 60])
        put(members[VICTIM])
        after = sum(merged_at(fans, path, fans.keys[SPY]).parts, zero_evidence(basis))
        guesses = singled_out(after, before, {6: (0.0, 1.0), 7: (0.0, 1.0)})
        if len(guesses):
            found |= set(np.flatnonzero(off(rows, guesses) < 1e-6).tolist())
        before = after
    assert (len(found) > 20) != guarded
    assert not (guarded and found)
