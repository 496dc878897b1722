"""What a device's key reads of others: sums, of as many devices as the federation's terms say."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import unbundle
from elmgrove.federation.merged import Merged
from elmgrove.federation.terms import Terms
from support.factories import DISTANT, cloud, distance_contribution, normal_rows
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
    key = fans.keys[ME]
    for asked in (f"/contributions/{YOU}", "/contributions/nobody", "/contributions"):
        detail = refused(fans.ask("GET", asked, key), "forbidden")["detail"]
        assert "administrator" in detail
    own = [seeded_contribution(name, seed).to_bytes() for seed, name in enumerate((ME, YOU))]
    assert fans.ask("GET", f"/contributions/{ME}", key).content == own[0]
    for asked in ("/entries", "/merged", "/others", "/devices"):
        assert fans.ask("GET", asked, key).status_code == 200
    assert list(unbundle(fans.ask("GET", "/contributions", ADMIN).content)) == own
    assert fans.ask("GET", f"/contributions/{YOU}", ADMIN).content == own[1]


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
