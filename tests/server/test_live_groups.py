"""Live groups over HTTP: what the server says of them, and how they follow each change."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.federation import aggregation
from elmgrove.federation.charter import Charter
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.groups import StandingGroups, group
from elmgrove.federation.merged import Merged
from elmgrove.server.auth import Service
from support.factories import near_plane
from support.serving import ADMIN, LAYER, Federation, fan_evidence, serving


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


def back(fans: Federation, device: str) -> Merged:
    return fans.merged(device, merge="group")


def test_the_server_follows_each_change_by_algorithm_2(fans: Federation) -> None:
    basis, ridge = fans.charter.basis, fans.charter.ridge
    published(fans, *FANS[:2])
    assert back(fans, "fan-1").devices == 1
    standing = StandingGroups(basis, ridge, group(FANS[:2], ridge))
    later = [
        FANS[2],
        fan("fan-1", np.vstack([near_plane(1, 1), near_plane(1, 7)])),
        fan("fan-2", near_plane(2, 2), near_plane(1, 3), near_plane(3, 8)),
        fan("fan-1", near_plane(3, 9, 200)),
        None,
    ]
    for contribution in later:
        if contribution is None:
            left = fans.ask("DELETE", "/contributions/fan-2", fans.keys["fan-2"])
            assert left.status_code == 204
            standing.leave("fan-2")
        else:
            published(fans, contribution)
            standing.take(contribution)
        for device in fans.keys:
            found = back(fans, device)
            assert set(found.used) == standing.partners(device)
            for mine, expected in zip(found.received, standing.returned(device), strict=True):
                assert mine.close_to(expected, 1e-12)


def test_two_servers_on_one_data_base_follow_alike(database: str) -> None:
    with serving(database) as first, serving(database) as second:
        here = first.found(Charter("fans", Basis(LAYER, LAYER.inputs)))
        here.enrol("fan-1", "fan-2", "fan 3/ü")
        there = here.at(second)
        published(here, FANS[0])
        assert back(here, "fan-1") == back(there, "fan-1")
        for federation, contribution in ((here, FANS[1]), (there, FANS[2])):
            published(federation, contribution)
            assert back(here, "fan-2") == back(there, "fan-2")


@pytest.mark.parametrize(
    ("asked", "limit"),
    [({"merge": "group"}, 5), ({"merge": "quality"}, 2), ({"patterns": "true"}, 4)],
    ids=str,
)
def test_more_than_can_be_compared_is_refused_and_the_sum_is_there_as_ever(
    fans: Federation, monkeypatch: pytest.MonkeyPatch, asked: dict[str, str], limit: int
) -> None:
    monkeypatch.setattr(aggregation, "MOST_PATTERNS", limit)
    published(fans, *FANS)
    answer = fans.ask("GET", "/merged", fans.keys["fan-1"], params=asked)
    assert (answer.status_code, f"more than {limit} " in answer.text) == (422, True)
    assert fans.merged("fan-1").devices == 2


def test_what_can_not_be_asked_for(fans: Federation) -> None:
    for query in ({"merge": ""}, {"merge": "fan-1,"}, {"merge": "a\nb"}, {"patterns": "yes"}):
        answer = fans.ask("GET", "/merged", fans.keys["fan-1"], params=query)
        assert answer.status_code == 400, query
    for path in ("/merged", "/others"):
        asked = {"merge": "group", "without": "fan-2"}
        assert fans.ask("GET", path, fans.keys["fan-1"], params=asked).status_code == 403
        assert fans.ask("GET", path, ADMIN, params=asked).status_code == 200
        assert fans.ask("GET", path, "guessed", params=asked).status_code == 401
        assert fans.ask("GET", path, fans.token, params=asked).status_code == 401


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
