"""Federations in rounds in this process: failures and bytes."""

import numpy as np
import pytest

from elmgrove.rounds.clients import SumClient
from elmgrove.rounds.rules import SumRule
from support.patterns import rows_of
from support.rounds import BASIS, client_evidence, device, run


class Failing(SumClient):
    """A device that has trouble in one round, before or after it did its work."""

    round = 1
    late = False

    def train(self, request: bytes, number: int) -> bytes:
        if number == self.round and not self.late:
            raise ConnectionError("the fan is on fire")
        reply = super().train(request, number)
        if number == self.round:
            raise ConnectionError("the reply got lost")
        return reply


def failing(name: str, rows: np.ndarray, rounds: int, at: int, late: bool) -> Failing:
    made = Failing(name, lambda number: (rows[: len(rows) * number // rounds],) * 2)
    made.round, made.late = at, late
    return made


@pytest.mark.parametrize("late", [False, True])
def test_a_failing_client_is_left_out_and_its_next_reply_has_all_rows(late: bool) -> None:
    good, bad = rows_of(0, 1, 40), rows_of(0, 2, 40)
    rule = SumRule("all", BASIS)
    clients = [device("good", good, 2), failing("bad", bad, 2, 1, late)]
    reports = run(rule, clients, 2)
    words = "the reply got lost" if late else "the fan is on fire"
    assert reports[0].left_out == {"bad": f"ConnectionError: {words}"}
    assert reports[0].answered == ("good",)
    assert reports[1].answered == ("bad", "good")
    assert rule.merged().evidence.close_to(client_evidence(np.vstack([good, bad])), 1e-9)


def test_a_client_that_drops_out_in_the_middle_leaves_what_it_contributed() -> None:
    good, bad = rows_of(0, 1, 40), rows_of(0, 2, 40)
    rule = SumRule("all", BASIS)
    run(rule, [device("good", good, 2), failing("bad", bad, 2, 2, False)], 2)
    assert rule.merged().evidence.close_to(client_evidence(np.vstack([good, bad[:20]])), 1e-9)


def test_bytes_are_those_of_the_messages() -> None:
    rule = SumRule("all", BASIS)
    clients = {name: device(name, rows_of(0, 1, 20)) for name in ("a", "b")}
    reports = run(rule, clients)
    said = [rule.ledger.get(name) for name in clients]
    assert reports[0].up == sum(len(entry.to_bytes()) for entry in said if entry)
    assert reports[0].down == 2 * len(rule.request())
