"""Waits grow, are bounded and differ."""

import random

from elmgrove.device.sync import Backoff


def test_waits_double_up_to_the_longest_and_start_again() -> None:
    backoff = Backoff(first=1.0, factor=2.0, longest=5.0)
    for step in (1.0, 2.0, 4.0, 5.0, 5.0):
        assert step / 2 <= backoff.failed() <= step
    backoff.succeeded()
    assert 0.5 <= backoff.failed() <= 1.0


def test_the_first_wait_is_no_longer_than_the_longest() -> None:
    assert Backoff(first=9.0, longest=2.0).failed() <= 2.0


def test_two_devices_wait_for_different_times_and_one_seed_for_the_same() -> None:
    def waits(seed: int) -> list[float]:
        backoff = Backoff(random=random.Random(seed))
        return [backoff.failed() for _ in range(20)]

    assert waits(1) == waits(1)
    assert not set(waits(1)) & set(waits(2))


def test_waits_spread_over_the_upper_half_of_their_step() -> None:
    backoff = Backoff(first=8.0, longest=8.0, random=random.Random(3))
    waits = [backoff.failed() for _ in range(200)]
    assert min(waits) < 4.5
    assert max(waits) > 7.5


def test_no_number_of_failures_is_too_many() -> None:
    backoff = Backoff()
    assert max(backoff.failed() for _ in range(5000)) <= 300.0
