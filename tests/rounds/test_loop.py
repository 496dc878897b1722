"""The loop of rounds: which clients are asked, which are left out and why, and the state."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput
from elmgrove.federation.merged import Merged
from elmgrove.rounds.clients import Client
from elmgrove.rounds.loop import RoundReport, drawn
from elmgrove.rounds.rules import RoundRule
from support.rounds import BASIS, run

NAMES = [f"client-{k}" for k in range(100)]
# By hand: the three lowest lines of sha256sum over 7/1/client-0 to 7/1/client-99.
DRAWN = ["client-36", "client-59", "client-91"]
names_lists = st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=30, unique=True)


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


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_is_a_fraction(fraction: float) -> None:
    with pytest.raises(BadInput, match="fraction"):
        drawn(NAMES, fraction, 0, 1)


class Counting(RoundRule[int]):
    """Its model is a number, to which replies are added."""

    total = 0

    def request(self) -> bytes:
        return bytes([self.total])

    def read(self, origin: str, reply: bytes) -> int | None:
        return reply[0] if reply else None

    def take(self, replies: Sequence[int]) -> None:
        self.total += sum(replies)

    def merged(self) -> Merged:
        raise NotImplementedError


class Answering(Client):
    """Answers with what a function makes of the request and the number of the round."""

    def __init__(self, name: str, answer: Callable[[int, int], bytes]) -> None:
        super().__init__(name)
        self._answer = answer

    def train(self, request: bytes, number: int) -> bytes:
        return self._answer(request[0], number)


def fails(state: int, number: int) -> bytes:
    raise ValueError("no power")


def ran(
    answers: Mapping[str, Callable[[int, int], bytes]], rounds: int, **more: object
) -> tuple[Counting, list[RoundReport]]:
    rule = Counting("all", BASIS)
    reports = run(rule, [Answering(*one) for one in answers.items()], rounds, **more)
    return rule, reports


def test_each_round_starts_from_the_last_ones_model() -> None:
    rule, reports = ran(
        {"a": lambda state, number: bytes([state + 1]), "b": lambda state, number: b"\3"}, 3
    )
    assert rule.total == 28
    assert [report.number for report in reports] == [1, 2, 3]


def test_clients_get_the_number_of_the_round() -> None:
    asked = list[int]()

    def answer(state: int, number: int) -> bytes:
        asked.append(number)
        return b""

    ran({"a": answer}, 3)
    assert asked == [1, 2, 3]


def test_a_client_that_fails_or_has_nothing_is_left_out_with_the_reason() -> None:
    answers = {
        "good": lambda state, number: b"\5",
        "broken": fails,
        "empty": lambda state, number: b"",
    }
    rule, reports = ran(answers, 1)
    assert rule.total == 5
    assert reports[0].answered == ("good",)
    assert reports[0].left_out == {"broken": "ValueError: no power", "empty": "nothing new"}


def test_the_model_stays_if_no_client_answers() -> None:
    rule, reports = ran({"a": fails}, 2)
    assert rule.total == 0
    assert [report.answered for report in reports] == [(), ()]
    assert ran({}, 2)[0].total == 0


def test_an_interrupt_is_not_a_clients_failure() -> None:
    def interrupted(state: int, number: int) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran({"a": interrupted}, 1)
