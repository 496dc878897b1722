"""The loop of rounds: which clients are asked, which are left out and why, and the state."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput
from elmgrove.rounds.loop import Ask, Deadline, Round, drawn, run_rounds

NAMES = [f"client-{k}" for k in range(100)]
# By hand: the three lowest lines of sha256sum over 7/1/client-0 to 7/1/client-99.
DRAWN = ["client-36", "client-59", "client-91"]
names_lists = st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=30, unique=True)


def adds(number: int) -> Ask[int, int]:
    return lambda state, round_: state + number


def fails(state: int, number: int) -> int:
    raise ValueError("no power")


def history() -> tuple[list[tuple[Round, int]], Callable[[Round, int], None]]:
    seen: list[tuple[Round, int]] = []
    return seen, lambda happened, state: seen.append((happened, state))


@settings(deadline=None)
@given(names_lists, st.integers(0, 100), st.integers(0, 2**40), st.integers(1, 50))
def test_as_many_are_drawn_as_the_paper_says(
    names: list[str], percent: int, seed: int, number: int
) -> None:
    chosen = drawn(names, percent / 100, seed, number)
    assert len(chosen) == max(percent * len(names) // 100, 1)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(names)
    assert drawn(names[::-1], percent / 100, seed, number) == chosen


def test_the_draw_is_fixed_for_ever_and_differs_by_seed_and_round() -> None:
    assert drawn(NAMES, 0.03, 7, 1) == DRAWN
    assert len({tuple(drawn(NAMES, 0.1, seed, 1)) for seed in range(20)}) == 20
    assert len({tuple(drawn(NAMES, 0.1, 7, number)) for number in range(20)}) == 20


def test_a_share_is_taken_as_it_is_written() -> None:
    """0.29 · 100 is 28.999… in floats."""
    assert len(drawn(NAMES, 0.29, 0, 1)) == 29


def test_all_clients_are_drawn_about_equally_often() -> None:
    counts = dict.fromkeys(NAMES, 0)
    for number in range(1000):
        for name in drawn(NAMES, 0.1, 0, number):
            counts[name] += 1
    # Each count is binomial: 100 ± 9.5.
    assert 60 < min(counts.values()) <= max(counts.values()) < 140


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_is_a_fraction(fraction: float) -> None:
    with pytest.raises(BadInput, match="fraction"):
        drawn(NAMES, fraction, 0, 1)


def test_each_round_starts_from_the_last_ones_state() -> None:
    seen, note = history()
    found = run_rounds(
        0, {"a": adds(1), "b": adds(3)}, sum, rounds=3, fraction=1, seed=0, on_round=note
    )
    assert found == 28
    assert [state for _, state in seen] == [4, 12, 28]
    assert [happened.number for happened, _ in seen] == [1, 2, 3]


def test_clients_are_told_the_number_of_the_round() -> None:
    asked = list[int]()
    run_rounds(
        0, {"a": lambda state, number: asked.append(number)}, sum, rounds=3, fraction=1, seed=0
    )
    assert asked == [1, 2, 3]


def test_only_those_drawn_are_asked() -> None:
    seen, note = history()
    clients = {name: adds(1) for name in NAMES}
    run_rounds(0, clients, len, rounds=4, fraction=0.1, seed=5, on_round=note)
    for happened, state in seen:
        assert list(happened.asked) == drawn(NAMES, 0.1, 5, happened.number)
        assert state == 10


def test_a_client_that_fails_or_has_nothing_is_left_out_with_the_reason() -> None:
    seen, note = history()
    clients = {"good": adds(5), "broken": fails, "empty": lambda state, number: None}
    assert run_rounds(1, clients, sum, rounds=1, fraction=1, seed=0, on_round=note) == 6
    [(happened, _)] = seen
    assert happened.answered == ("good",)
    assert happened.left_out == {"broken": "ValueError: no power", "empty": "nothing new"}


def test_the_state_stays_if_no_client_answers() -> None:
    seen, note = history()
    assert run_rounds(4, {"a": fails}, sum, rounds=2, fraction=1, seed=0, on_round=note) == 4
    assert [happened.answered for happened, _ in seen] == [(), ()]
    assert run_rounds(4, {}, sum, rounds=2, fraction=1, seed=0) == 4


def test_a_late_client_is_left_out() -> None:
    now = [0.0]

    def slow(state: int, number: int) -> int:
        now[0] += 3.0
        return 100

    seen, note = history()
    found = run_rounds(
        0,
        {"slow": slow, "quick": adds(1)},
        sum,
        rounds=1,
        fraction=1,
        seed=0,
        deadline=Deadline(2.0, lambda: now[0]),
        on_round=note,
    )
    assert found == 1
    assert seen[0][0].left_out == {"slow": "late: 3 s, where 2 s were given"}


def test_an_interrupt_is_not_a_clients_failure() -> None:
    def interrupted(state: int, number: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_rounds(0, {"a": interrupted}, sum, rounds=1, fraction=1, seed=0)
