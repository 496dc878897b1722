"""The audit over HTTP: read page by page, kept after a deletion."""

from hashlib import sha256

import pytest

from elmgrove.federation.audit import require_unbroken
from support.serving import ADMIN, Federation, Server, refused, seeded_contribution


def test_the_story_of_a_federation(server: Server, fans: Federation) -> None:
    fans.put(seeded_contribution("fan-1", 1))
    assert fans.put(seeded_contribution("fan-1", 1)).status_code == 200, "the same again"
    fans.ask("DELETE", "/contributions/fan-1", fans.keys["fan-1"])
    fans.put(seeded_contribution("fan-2", 2))
    fans.ask("DELETE", "/devices/fan-2", ADMIN)
    fans.ask("POST", "/devices", ADMIN, json={"name": "fan-2"})
    fans.ask("POST", "/token", ADMIN)
    fans.ask("DELETE", "", ADMIN)
    root = "administrator root"
    assert fans.told() == [
        (root, "made"),
        *[("join token", "joined")] * 3,
        ("device fan-1", "published"),
        ("device fan-1", "left"),
        ("device fan-2", "published"),
        (root, "revoked"),
        (root, "left"),
        (root, "readmitted"),
        (root, "token renewed"),
        (root, "deleted"),
    ]
    records = server.audit(fans.charter.name)
    require_unbroken(records)
    sent = seeded_contribution("fan-1", 1).to_bytes()
    published = {"device": "fan-1", "epoch": 20, "rows": 20.0, "size": len(sent)}
    assert records[4].detail == published | {"digest": sha256(sent).hexdigest()}
    assert records[1].detail == {"device": "fan-1", "expires": None}
    server.found(fans.charter)
    assert [one.act for one in server.audit(fans.charter.name)][-2:] == ["deleted", "made"]


def test_it_is_read_page_by_page(server: Server, fans: Federation) -> None:
    name = fans.charter.name
    everything = server.audit(name)
    assert [one.number for one in everything] == [1, 2, 3, 4]
    assert server.audit(name, limit="2") == everything[-2:]
    assert server.audit(name, limit="2", after="1") == everything[1:3]
    assert server.audit(name, device="fan-2") == everything[2:3]
    assert server.audit(name, since=repr(everything[3].at)) == everything[3:]
    assert server.audit("no such") == []


@pytest.mark.parametrize(
    "query",
    ["limit=-1", "limit=x", "after=1e9", "since=", "since=1.2.3", "federation=%00", "device=%00"],
)
def test_a_question_that_can_not_be_read_is_refused(server: Server, query: str) -> None:
    problem = refused(server.ask("GET", f"/v1/audit?{query}", ADMIN), "malformed")
    assert query.partition("=")[0] in problem["detail"]
