"""Closing a round on a server of our own: what came in becomes the next request, and a report."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from elmgrove.errors import ElmgroveError
from elmgrove.rounds.agenda import Agenda, BetweenRounds
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.loop import NOTHING_NEW, Round, reason
from elmgrove.rounds.report import RoundReport
from elmgrove.rounds.rules import RoundRule


class Closing(NamedTuple):
    """What a server keeps when a round is over; ``kept`` are clients whose reply is still needed.

    Such a reply takes the place of the client's earlier one; no other reply of the round is kept.
    """

    request: bytes
    progress: Mapping[str, Any]
    kept: tuple[str, ...]
    report: RoundReport


class Replies(NamedTuple):
    """What came in a round: bytes by the clients' names, and why some drawn clients have none."""

    came: Mapping[str, bytes]
    without: Mapping[str, str]


def close_round(
    agenda: Agenda,
    held: BetweenRounds,
    number: int,
    asked: Collection[str],
    replies: Replies,
    *,
    exam: Exam | None = None,
    seconds: float = 0.0,
) -> Closing:
    """Combines the replies of a round by the rule, as the other engines do.

    A drawn client without a reply is left out for the reason that is given. If there are no replies
    at all, or the rule can't combine them, the model stays.
    """
    rule = held.rule(agenda)
    read, left_out = _read(rule, replies)
    try:
        if read:
            rule.take([read[name] for name in sorted(read)])
    except ElmgroveError as error:
        # As before: what was half done is in a rule that is thrown away.
        rule = held.rule(agenda)
        left_out |= dict.fromkeys(read, reason(error))
        read = {}
    kept = tuple(name for name in sorted(read) if rule.kept(read[name]))
    happened = Round(
        number, tuple(sorted(asked)), tuple(sorted(read)), dict(sorted(left_out.items()))
    )
    down, up = len(held.request) * len(asked), sum(map(len, replies.came.values()))
    found = None if exam is None else rule.evaluate(exam)
    report = RoundReport.of(happened, down, up, seconds, found)
    return Closing(rule.request(), rule.progress, kept, report)


def _read(rule: RoundRule[Any], replies: Replies) -> tuple[dict[str, Any], dict[str, str]]:
    read, left_out = dict[str, Any](), dict(replies.without)
    for name, blob in replies.came.items():
        try:
            reply = rule.read(name, blob)
        except ElmgroveError as error:
            left_out[name] = reason(error)
            continue
        if reply is None:
            left_out[name] = NOTHING_NEW
        else:
            read[name] = reply
    return read, left_out
