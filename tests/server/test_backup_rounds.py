"""A federation in rounds survives the loss of its data base in the middle of a round."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from elmgrove.rounds import Client, Exam
from elmgrove.server import back_up, restore
from support.held_rounds import (
    Late,
    agenda_of,
    check,
    found_rounds,
    plan_of,
    rows_of,
    taking_part,
    where,
)
from support.ports import free_port
from support.serving import Server, contents, killed_at_the_end, lose, wait_until

THREE_OF_FOUR = (2, {"a", "b", "c"})


def quiet(share: float | None) -> None:
    """Hears how far it is, and says nothing."""


@pytest.mark.parametrize("rule", ["fedavg", "e2lm"])
def test_rounds_go_on_from_a_back_up_to_the_same_end(
    database: str, tmp_path: Path, rule: str
) -> None:
    port, may, path = free_port(), threading.Event(), tmp_path / "backup"
    plan = plan_of(rule, fraction=1.0, exam=Exam(rows_of(77)))
    server = Server(f"http://127.0.0.1:{port}", database)

    def made(client: Client) -> Client:
        return Late(client, {2}, may) if client.name == "d" else client

    with ExitStack() as ends:
        ends.enter_context(server.http)
        with killed_at_the_end(database, port):
            fans = found_rounds(server, agenda_of(plan, "fans"), plan.round_rule(), plan.exam)
            fleet = ends.enter_context(
                taking_part(fans.url, fans.token, plan, folder=tmp_path, made=made)
            )
            ends.callback(may.set)
            wait_until(lambda: where(fans) == THREE_OF_FOUR)
            back_up(database, path, tell=quiet)
        before = contents(database)
        lose(database)
        restore(path, database, tell=quiet)
        after = contents(database)
        for table in ("device", "rounds", "rounds_held", "reply", "report"):
            assert before[table], table
            assert after[table] == before[table], table
        with killed_at_the_end(database, port):
            assert where(fans) == THREE_OF_FOUR
            may.set()
            check(fans, plan, fleet.wait())
