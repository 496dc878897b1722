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
    ALL_SHOWN,
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
    for asked in (
        f"/contributions/{YOU}",
        "/contributions/nobody",
        "/contributions",
        f"/contributions?origin={YOU}",
        f"/contributions?origin={ME}&origin={YOU}",
    ):
        detail = refused(fans.ask("GET", asked, key), "forbidden")["detail"]
        assert "a key reads sums" in detail
        assert "administrator" in detail
        assert "--shows contributions" in detail
    own = seeded_contribution(ME, 0).to_bytes()
    assert fans.ask("GET", f"/contributions/{ME}", key).content == own
    assert list(unbundle(fans.ask("GET", f"/contributions?origin={ME}", key).content)) == [own]
    for asked in ("/entries", "/merged", "/others", "/groups", "/devices"):
        assert fans.ask("GET", asked, key).status_code == 200


def test_an_administrator_reads_each_and_so_does_a_key_where_the_terms_say_so(
    server: Server,
) -> None:
    fans = federation(server, ME, YOU)
    shown = federation(server, ME, YOU, terms=ALL_SHOWN)
    both = [seeded_contribution(ME, 0).to_bytes(), seeded_contribution(YOU, 1).to_bytes()]
    for made, secret in ((fans, ADMIN), (shown, shown.keys[ME])):
        assert made.ask("GET", f"/contributions/{YOU}", secret).content == both[1]
        assert list(unbundle(made.ask("GET", "/contributions", secret).content)) == both


def test_a_sum_over_too_few_is_not_told(server: Server) -> None:
    fans = federation(server, ME, YOU, THIRD, terms=Terms(least=2))
    total = fan_evidence(normal_rows(1)) + fan_evidence(normal_rows(2))
    assert merged_at(fans, "/merged", fans.keys[ME]).evidence.close_to(total, 1e-12)
    assert fans.ask("DELETE", f"/contributions/{THIRD}", ADMIN).status_code == 204
    for path, query in (("/merged", {}), ("/merged", {"grouped": "evidence"}), ("/others", {})):
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
    groups = alike.ask("GET", "/groups?regroup=true", alike.keys["d1"]).json()
    assert {one["origin"] for one in groups["models"]} == {"a1", "a2", "b1", "b2"}
    assert (groups["steps"], groups["refused"], groups["groups"]) == ([], None, 2)
    everything = alike.ask("GET", "/groups?regroup=true", ADMIN).json()
    assert (everything["groups"], len(everything["models"])) == (4, 6)
    assert everything["refused"] is not None
    back = merged_at(alike, "/merged", alike.keys["a1"], grouped="evidence")
    assert back.devices == 0, "of its own kind there is one other"


def test_one_device_is_not_what_all_others_leave_over(alike: Federation) -> None:
    for name, key in alike.keys.items():
        total = merged_at(alike, "/merged", key)
        seen = merged_at(alike, "/others", key)
        kept = sum(part.count for part in seen.parts)
        left = total.evidence.count - kept
        assert left == 0 or left >= 2 * 600, (name, left)
        for loan in seen.loans:
            assert loan.count > 1.5, "nobody lends alone"
