"""A stored contribution that is damaged harms its device alone, and is mended by its next sync."""

import pytest

from elmgrove.federation.contribution import Contribution, unbundle
from elmgrove.federation.merged import Merged
from support.factories import normal_rows
from support.serving import (
    ADMIN,
    LAYER,
    Federation,
    alter,
    central,
    charter,
    fan_evidence,
    flipped,
    seeded_contribution,
    serving,
)

ME, YOU, THIRD = "fan-1", "fan-2", "fan 3/ü"
SEEDS = {ME: 1, YOU: 2, THIRD: 3}
OTHER_LAYER = Contribution(
    YOU, 20, (fan_evidence(normal_rows(2), LAYER.__class__(6, 3, seed=9)),)
).to_bytes()


def begun(store: str) -> Federation:
    """A federation of three that have published, on a server that is gone."""
    with serving(store) as server:
        fans = server.found(charter())
        fans.enrol(*SEEDS)
        for name, seed in SEEDS.items():
            assert fans.put(seeded_contribution(name, seed)).status_code == 200
        return fans


def require_sum(fans: Federation, device: str, *others: str) -> None:
    merged = fans.merged(device)
    assert merged.devices == len(others)
    assert merged.evidence.close_to(central([normal_rows(SEEDS[name]) for name in others]), 1e-9)


@pytest.mark.parametrize(
    "change", [flipped, lambda blob: blob[:100], lambda blob: OTHER_LAYER, lambda blob: b""]
)
def test_the_others_go_on_without_what_is_damaged_and_the_same_again_mends_it(
    database: str, caplog: pytest.LogCaptureFixture, change: object
) -> None:
    fans = begun(database)
    alter(database, fans.charter.name, YOU, change)
    with serving(database) as server:
        fans = fans.at(server)
        require_sum(fans, ME, THIRD)
        require_sum(fans, YOU, ME, THIRD)
        for path in ("/others", "/merged?merge=group", "/merged?merge=quality"):
            answer = fans.ask("GET", path, fans.keys[ME])
            assert answer.status_code == 200
            assert YOU not in Merged.from_bytes(answer.content).used
        bundle = fans.ask("GET", "/contributions", ADMIN).content
        assert [Contribution.from_bytes(blob).origin for blob in unbundle(bundle)] == [THIRD, ME]
        assert fans.ask("GET", f"/contributions/{YOU}", ADMIN).status_code == 404
        shown = {name: entry["corrupt"] for name, entry in fans.entries().items()}
        assert shown == {ME: False, YOU: True, THIRD: False}
        (told,) = [one.getMessage() for one in caplog.records if "corrupt" in one.getMessage()]
        assert repr(YOU) in told
        mended = fans.put(seeded_contribution(YOU, 2))
        assert (mended.status_code, mended.json()["revision"]) == (200, 4)
        require_sum(fans, ME, YOU, THIRD)
        require_sum(fans, YOU, ME, THIRD)
        assert not fans.entries()[YOU]["corrupt"]
        answer = fans.ask("GET", "/others", fans.keys[ME])
        assert YOU in Merged.from_bytes(answer.content).used
        assert fans.put(seeded_contribution(YOU, 2)).json()["revision"] == 4


def test_what_was_damaged_when_it_came_is_not_taken_out_when_it_goes(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not in the sum: all need not be added up again."""
    fans = begun(database)
    caplog.set_level("INFO", "elmgrove.server")
    alter(database, fans.charter.name, YOU, flipped)
    with serving(database) as server:
        fans = fans.at(server)
        require_sum(fans, ME, THIRD)
        assert fans.ask("DELETE", f"/contributions/{YOU}", fans.keys[YOU]).status_code == 204
        require_sum(fans, ME, THIRD)
        assert fans.put(seeded_contribution(YOU, 2, epoch=30)).status_code == 200
        require_sum(fans, ME, YOU, THIRD)
        assert len([one for one in caplog.records if "added up" in one.getMessage()]) == 1


def test_what_is_damaged_while_it_is_in_the_sum_can_still_be_left_out(database: str) -> None:
    fans = begun(database)
    with serving(database) as server:
        fans = fans.at(server)
        require_sum(fans, ME, YOU, THIRD)
        alter(database, fans.charter.name, YOU, flipped)
        require_sum(fans, YOU, ME, THIRD)
        assert fans.put(seeded_contribution(YOU, 2)).status_code == 200
        require_sum(fans, ME, YOU, THIRD)
        # And replaced, with nothing of it left.
        alter(database, fans.charter.name, THIRD, flipped)
        alter(database, fans.charter.name, YOU, lambda blob: b"")
        assert fans.put(seeded_contribution(YOU, 2, epoch=30)).status_code == 200
        require_sum(fans, ME, YOU)
