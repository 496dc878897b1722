"""An agent that can't use what it is given says so."""

import logging

import pytest

from elmgrove import BadInput
from elmgrove.device import input_health
from elmgrove.device.input_health import LEAST, LOGGED, WINDOW, InputHealth


def take(found: InputHealth, pattern: str) -> None:
    """Rows that can be used (+) and can't (-)."""
    for number, one in enumerate(pattern):
        if one == "+":
            found.use()
        else:
            found.leave_out(f"line {number}", "'1,5' is no number")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]


@pytest.mark.parametrize(
    "pattern", ["+" * 300, "+-" * 200, "+" * 110 + "-" * 100, "-" * (LEAST - 1)]
)
def test_a_few_bad_rows_are_no_reason_to_shout(
    pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard = InputHealth()
    take(heard, pattern)
    assert not heard.unreadable
    assert errors(caplog) == []


def test_nothing_that_can_be_used_is_told_early_and_once(caplog: pytest.LogCaptureFixture) -> None:
    heard = InputHealth()
    take(heard, "-" * 1000)
    assert errors(caplog) == [
        "none of the last 20 rows could be used; the last: '1,5' is no number"
    ]
    assert caplog.text.count("is left out") == LOGGED
    assert heard.fields == {
        "used": 0, "left_out": 1000, "reason": "'1,5' is no number", "unreadable": True,
    }  # fmt: skip


def test_it_is_said_again_after_a_while_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    clock, heard = 0.0, InputHealth()
    monkeypatch.setattr(input_health.time, "monotonic", lambda: clock)
    take(heard, "-" * 100)
    clock = 3599.0
    take(heard, "-" * 100)
    assert len(errors(caplog)) == 1
    clock = 3600.0
    take(heard, "-")
    assert len(errors(caplog)) == 2
    take(heard, "+" * (WINDOW // 2))
    take(heard, "-+" * 300)
    assert caplog.text.count("rows can be used again: 100 of the last 200") == 1
    assert len(errors(caplog)) == 2, "not with each row around the half"


def test_one_file_that_is_refused_is_not_deafness_and_several_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard = InputHealth()
    take(heard, "+" * WINDOW)
    for number in range(5):
        heard.leave_out(f"{number}.csv", "gzip", whole=True)
    assert errors(caplog) == []
    heard.leave_out("6.csv", "gzip", whole=True)
    assert errors(caplog) == ["80 of the last 200 rows could be used; the last: gzip"]
    assert heard.left_out == 6
    new = InputHealth()
    new.leave_out("1.csv", "gzip", whole=True)
    assert len(errors(caplog)) == 2, "nothing was ever used"


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("-", "none of 1 rows"), ("+--", "1 of 3 rows"), ("-" * 600 + "+" * 300, "300 of 900 rows")],
)
def test_less_than_half_of_all_is_an_error_at_the_end(pattern: str, said: str) -> None:
    heard = InputHealth()
    take(heard, pattern)
    with pytest.raises(BadInput, match=f"^{said} could be used; the last: '1,5' is no number$"):
        heard.require_heard("fan.csv", resumed=False)
