"""An agent that is given what it can't use says so, and does not end as if all were well."""

from pathlib import Path

import pytest

from support.agents import Start, append_rows, learned, verdicts
from support.factories import member_in, normal_rows, write_rows

pytestmark = pytest.mark.usefixtures("own_folder")


def text_rows(count: int) -> str:
    return "hot,cold,hot,cold,hot,cold\n" * count


def test_of_a_file_without_a_row_to_use_it_ends_with_an_error(device: Start) -> None:
    Path("fan.csv").write_text("a,b,c,d,e,f\n" + text_rows(50))
    fan = device("fan", like="like.evidence")
    assert fan.end() == 1
    assert "none of 50 rows could be used; the last: column 1 ('a'): 'hot'" in fan.log
    assert fan.log.count("ERROR none of the last 20 rows could be used") == 1
    assert "Traceback" not in fan.log


@pytest.mark.parametrize(("good", "code"), [(49, 1), (50, 0)])
def test_less_than_half_is_an_error_after_all_was_saved(
    device: Start, good: int, code: int
) -> None:
    write_rows(Path("fan.csv"), normal_rows(1, good))
    with Path("fan.csv").open("a") as file:
        file.write(text_rows(50))
    fan = device("fan", like="like.evidence")
    assert fan.end() == code
    assert learned(Path("fan.elm")) == len(verdicts(Path("fan.jsonl"))) == good
    noted = member_in("fan.elm").notes["input"]
    assert (noted["used"], noted["left_out"]) == (good, 50)
    assert "is not a finite number" in noted["reason"]


def test_while_it_follows_it_says_so_and_stays(device: Start) -> None:
    X = normal_rows(1, 300)
    write_rows(Path("fan.csv"), X[:10])
    with Path("fan.csv").open("a") as file:
        file.write(text_rows(60))
    fan = device("fan", like="like.evidence", follow=True, save_seconds=0.1)
    fan.logs("ERROR 10 of the last 21 rows could be used")
    append_rows(Path("fan.csv"), X[10:])
    fan.logs("INFO rows can be used again")
    fan.until(lambda: learned(Path("fan.elm")) == 300)
    assert fan.stop() == 0
    assert fan.log.count("ERROR") == 1
