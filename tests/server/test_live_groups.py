"""Live groups over HTTP: what the server says of them, and how they follow each change."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import Grouping, group
from elmgrove.federation.standing import StandingGroups
from elmgrove.server import sums
from elmgrove.server.service import Service
from support.factories import near_plane
from support.serving import ADMIN, LAYER, Federation, charter, fan_evidence, serving


def fan(origin: str, *parts: np.ndarray, epoch: int | None = None) -> Contribution:
    rows = sum(map(len, parts)) if epoch is None else epoch
    return Contribution(origin, rows, tuple(fan_evidence(X) for X in parts))


FANS = [
    fan("fan-1", near_plane(1, 1)),
    fan("fan-2", near_plane(2, 2), near_plane(1, 3)),
    fan("fan 3/ü", near_plane(2, 4), near_plane(3, 5), near_plane(1, 6)),
]


def published(fans: Federation, *contributions: Contribution) -> None:
    for contribution in contributions:
        answer = fans.put(contribution)
        assert answer.status_code == 200, answer.text


def shown(fans: Federation, **query: Any) -> dict[str, Any]:
    answer = fans.ask("GET", "/groups", fans.keys["fan-1"], params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def fields(found: Grouping, revision: int) -> dict[str, Any]:
    """As they are after a journey through JSON."""
    plain = found.fields
    for step in [*plain["steps"], *([plain["refused"]] if plain["refused"] else [])]:
        step.update(first=list(step["first"]), second=list(step["second"]))
    return {"revision": revision, "since": revision, **plain}


def test_the_server_says_what_the_rule_says(fans: Federation) -> None:
    published(fans, *FANS)
    for count in (None, 1, 3):
        asked = {} if count is None else {"groups": count}
        expected = group(FANS, fans.charter.ridge, count=count)
        assert shown(fans, **asked) == fields(expected, 3)
    assert shown(fans) == shown(fans, regroup="true")
    assert fans.ask("GET", "/groups", ADMIN).json() == shown(fans)


def test_what_is_made_again_is_kept_until_a_device_contributes_or_leaves(
    fans: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed, late = [], [replace(one, epoch=one.epoch + 10**6) for one in FANS]

    def counted(held: list[Contribution], *how: Any) -> Grouping:
        if held[0].epoch > 10**6:  # not another federation's, which the server keeps up to date
            computed.append(how)
        return group(held, *how)

    monkeypatch.setattr(sums, "group", counted)
    published(fans, *late[:2])
    first = shown(fans, regroup="true")
    assert shown(fans, regroup="true") == first
    assert len(computed) == 1
    published(fans, late[2])
    assert len(shown(fans, regroup="true")["models"]) == 6
    assert fans.ask("DELETE", "/contributions/fan-2", fans.keys["fan-2"]).status_code == 204
    left = shown(fans, regroup="true")["models"]
    assert [model["origin"] for model in left] == ["fan 3/ü"] * 3 + ["fan-1"]
    assert len(computed) == 3


# Standing groups on the server


def same_as(standing: StandingGroups, told: dict[str, Any]) -> None:
    expected = fields(standing.grouping, told["revision"]) | {"since": told["since"]}
    assert {**told, "silhouettes": {}, "steps": [], "refused": None} == expected


def test_the_server_follows_each_change_by_algorithm_2(fans: Federation) -> None:
    basis, ridge = fans.charter.basis, fans.charter.ridge
    published(fans, *FANS[:2])
    first = shown(fans)
    assert (first["revision"], first["since"]) == (2, 2)
    standing = StandingGroups(basis, ridge, group(FANS[:2], ridge))
    later = [
        FANS[2],
        fan("fan-1", np.vstack([near_plane(1, 1), near_plane(1, 7)])),
        fan("fan-2", near_plane(2, 2), near_plane(1, 3), near_plane(3, 8)),
        fan("fan-1", near_plane(3, 9, 200)),
    ]
    for revision, contribution in enumerate(later, start=3):
        published(fans, contribution)
        standing.take(contribution)
        told = shown(fans)
        assert (told["revision"], told["since"]) == (revision, 2)
        same_as(standing, told)
    assert fans.ask("DELETE", "/contributions/fan-2", fans.keys["fan-2"]).status_code == 204
    standing.leave("fan-2")
    same_as(standing, shown(fans))
    for device in fans.keys:
        found = fans.merged(device, grouped="evidence")
        assert found.devices == len(standing.partners(device))
        for mine, expected in zip(found.received, standing.returned(device), strict=True):
            assert mine.close_to(expected, 1e-12)


def test_two_servers_on_one_data_base_follow_alike(database: str) -> None:
    with serving(database) as first, serving(database) as second:
        here = first.found(Charter("fans", Basis(LAYER, LAYER.inputs)))
        here.enrol("fan-1", "fan-2", "fan 3/ü")
        there = here.at(second)
        published(here, FANS[0])
        assert shown(here) == shown(there)
        for federation, contribution in ((here, FANS[1]), (there, FANS[2])):
            published(federation, contribution)
            assert shown(here) == shown(there)
            told = here.merged("fan-2", grouped="evidence")
            assert there.merged("fan-2", grouped="evidence") == told


def test_groups_that_have_become_too_large_are_not_kept(
    fans: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(fans, *FANS[:2])
    assert shown(fans)["revision"] == 2
    monkeypatch.setattr(sums, "MOST_PATTERNS", 5)
    published(fans, FANS[2])
    assert "more than 5 patterns" in refused(fans, "refused")
    answer = fans.ask("GET", "/merged", fans.keys["fan-1"], params={"grouped": "evidence"})
    assert answer.status_code == 422
    assert fans.merged("fan-1").devices == 2, "the sum over all is there as ever"
    monkeypatch.undo()
    assert (shown(fans)["revision"], shown(fans)["since"]) == (3, 3)
    monkeypatch.setattr(sums, "MOST_GROUP_BYTES", 100)
    published(fans, fan("fan-1", near_plane(1, 1), near_plane(1, 7)))
    assert "more than 100" in refused(fans, "refused")


def test_what_the_server_can_not_group_by(fans: Federation) -> None:
    for secret, query, named in (
        (fans.keys["fan-1"], {"grouped": "looks"}, "grouped"),
        (fans.keys["fan-1"], {"grouped": ""}, "grouped"),
        (fans.keys["fan-1"], {"grouped": "parameters"}, "grouped"),
        (ADMIN, {"grouped": "evidence"}, "without"),
    ):
        answer = fans.ask("GET", "/merged", secret, params=query)
        assert (answer.status_code, named in answer.json()["detail"]) == (400, True)
    asked = {"grouped": "evidence", "without": "fan-2"}
    assert fans.ask("GET", "/merged", fans.keys["fan-1"], params=asked).status_code == 403
    assert fans.ask("GET", "/merged", ADMIN, params=asked).status_code == 200


def test_a_federation_without_rows_has_no_groups(fans: Federation) -> None:
    assert shown(fans)["groups"] == 0


def refused(fans: Federation, kind: str, **query: Any) -> str:
    answer = fans.ask("GET", "/groups", fans.keys["fan-1"], params=query)
    problem = answer.json()
    assert problem["type"] == f"urn:elmgrove:problem:{kind}", problem
    assert answer.status_code == problem["status"]
    return str(problem["detail"])


def test_what_the_server_does_not_group(fans: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    published(fans, *FANS)
    for count in ("-1", "many", "9" * 30, "٣"):
        assert "groups" in refused(fans, "malformed", groups=count)
    assert "regroup" in refused(fans, "malformed", regroup="yes")
    for count in ("0", "7"):
        assert "groups" in refused(fans, "malformed", groups=count)
    monkeypatch.setattr(sums, "MOST_PATTERNS", 5)
    assert "more than 5 patterns" in refused(fans, "refused", groups=2)
    monkeypatch.setattr(sums, "MOST_GROUP_BYTES", 100)
    assert "more than 100" in refused(fans, "refused")
    assert fans.ask("GET", "/groups", "guessed").status_code == 401
    assert fans.ask("GET", "/groups", fans.token).status_code == 401


def test_groups_are_made_again_one_at_a_time(
    fans: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, done = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Grouping:
        if arguments[-1] == 2:  # what is asked here: the server keeps others' groups up to date
            begun.set()
            assert done.wait(60)
        return group(*arguments)

    published(fans, *FANS)
    first = shown(fans, regroup="true")
    monkeypatch.setattr(sums, "group", slow)
    with fans.client("fan-2") as other, ThreadPoolExecutor(1) as thread:
        asked = thread.submit(other.get, f"{fans.path}/groups", params={"groups": 2})
        assert begun.wait(60)
        for secret in (fans.keys["fan-1"], ADMIN):
            answer = fans.ask("GET", "/groups", secret, params={"groups": 3})
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "10")
        assert shown(fans, regroup="true") == first, "what is known is told meanwhile"
        done.set()
        assert asked.result().json()["groups"] == 2


def test_nobody_lets_groups_be_made_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums.LiveGroups, "SHARE", (1e-6, 1e-6))
    with serving(f"{tmp_path}/store.db") as server:
        fans = server.found(charter())
        fans.enrol("fan-1", "fan-2", "fan 3/ü")
        published(fans, *FANS)
        assert shown(fans, groups=2)["groups"] == 2
        assert "for too long" in refused(fans, "too-many", groups=3)
        assert shown(fans, groups=2)["groups"] == 2
        answer = fans.ask("GET", "/groups", fans.keys["fan-2"], params={"groups": 3})
        assert answer.status_code == 200, "others have a share of their own"


# Contributions of several patterns


def test_sums_hold_all_patterns_of_a_device(fans: Federation) -> None:
    published(fans, *FANS)
    merged = fans.merged("fan-1")
    X = [near_plane(2, 2), near_plane(1, 3), near_plane(2, 4), near_plane(3, 5), near_plane(1, 6)]
    assert merged.devices == 2
    assert merged.evidence.close_to(fan_evidence(np.vstack(X)), 1e-12)
    newer = fan("fan-2", near_plane(2, 2), np.vstack([near_plane(1, 3), near_plane(1, 7)]))
    published(fans, newer)
    assert fans.merged("fan-1").evidence.close_to(
        fan_evidence(np.vstack([*X, near_plane(1, 7)])), 1e-12
    )
    assert fans.ask("DELETE", "/contributions/fan-2", fans.keys["fan-2"]).status_code == 204
    assert fans.merged("fan-1").evidence.close_to(fan_evidence(np.vstack(X[2:])), 1e-12)
    kept = fans.ask("GET", "/contributions/fan%203%2F%C3%BC", ADMIN).content
    assert Contribution.from_bytes(kept) == FANS[2]


def test_as_many_patterns_as_there_may_be_fit_and_one_more_does_not(fans: Federation) -> None:
    most = [near_plane(n, n) for n in range(16)]
    published(fans, fan("fan-1", *most))
    one_more = fan("fan-1", *most, epoch=10_000)
    object.__setattr__(one_more, "parts", (*one_more.parts, one_more.parts[0]))
    answer = fans.put_blob("fan-1", one_more.to_bytes())
    assert answer.status_code == 400
    assert "1 to 16 parts" in answer.json()["detail"]


def test_each_pattern_is_checked_by_itself(fans: Federation) -> None:
    """Two parts that no rows give, whose sum is honest."""
    honest, shift = fan_evidence(near_plane(1, 1)), 100.0 * np.eye(LAYER.units)
    parts = tuple(
        Evidence(honest.basis, honest.U + sign * shift, honest.V, honest.energy, honest.count)
        for sign in (1, -1)
    )
    answer = fans.put(Contribution("fan-1", 120, parts))
    assert (answer.status_code, answer.json()["type"]) == (
        422,
        "urn:elmgrove:problem:not-admissible",
    )
    assert "fan-1" not in fans.entries()


def test_the_largest_body_limits_patterns_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = HiddenLayer(inputs=40, units=40, seed=1)
    parts = [fan_evidence(np.random.default_rng(n).normal(size=(50, 40)), layer) for n in range(5)]
    fits, does_not = (Contribution("fan-1", 50 * n, tuple(parts[:n])) for n in (4, 5))
    size = len(fits.to_bytes())
    monkeypatch.setattr(Service, "max_body", size)
    with serving(f"sqlite:///{tmp_path}/store.db") as running:
        fans = running.found(Charter("fans", parts[0].basis))
        fans.enrol("fan-1")
        published(fans, fits)
        answer = fans.put(does_not)
        assert (answer.status_code, f"{size} bytes" in answer.json()["detail"]) == (413, True)
