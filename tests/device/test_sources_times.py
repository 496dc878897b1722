"""Times of rows, and the gaps between them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from elmgrove.device.sources import open_source, text
from elmgrove.device.sources.text import Reading
from elmgrove.reading.times import Gap, Gaps

pytestmark = pytest.mark.usefixtures("unpaced")

#: Noon of a day in May.
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()


def iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat()


def write(path: Path, times: list[float]) -> None:
    path.write_text("ts,a\n" + "".join(f"{iso(time)},{n}\n" for n, time in enumerate(times)))


def read(path: Path, **options: Any) -> list[Reading]:
    found = open_source(str(path), follow=False, **options)
    return [item for item in found if isinstance(item, Reading)]


def test_a_gap_is_found_and_the_row_after_it_follows_nothing(path: Path) -> None:
    times = [NOON + 60 * n for n in range(20)]
    times += [times[-1] + 3600 + 60 * n for n in range(20)]
    write(path, times)
    found = read(path)
    assert [item.gap for item in found if item.gap] == [Gap(times[19], times[20])]
    assert [n for n, item in enumerate(found) if not item.follows] == [0, 20]
    assert str(found[20].gap) == "no rows from 2024-05-01 12:19:00 to 2024-05-01 13:19:00 (60 min)"


def test_a_restart_finds_the_gaps_that_it_would_have_found(path: Path) -> None:
    times = [NOON + n * 60 for n in range(12)]
    times += [times[-1] + 400, times[-1] + 460, times[-1] + 520, times[-1] + 2000]
    write(path, times)
    whole = read(path)
    assert [item.gap is not None for item in whole] == [False] * 12 + [True, False, False, True]
    for place, item in enumerate(whole):
        bookmark = json.loads(json.dumps(item.bookmark))
        assert read(path, bookmark=bookmark) == whole[place + 1 :]


# By the wall clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The present time, to be changed."""
    now = [NOON]
    monkeypatch.setattr(text.time, "time", lambda: now[0])
    return now


def arrivals(watched: Gaps, clock: list[float], pauses: list[float]) -> list[Gap | None]:
    """The gaps before rows that arrive after so many seconds each."""
    found = []
    for pause in pauses:
        watched.idle()
        clock[0] += pause
        found.append(watched.before(None))
    return found


def test_live_rows_without_times_are_judged_by_their_arrival(clock: list[float]) -> None:
    gaps = arrivals(Gaps(live=True), clock, [60.0] * 20 + [3600.0] + [60.0] * 5)
    assert [n for n, gap in enumerate(gaps) if gap] == [20]
    assert gaps[20] == Gap(clock[0] - 3900, clock[0] - 300)


def test_bursts_and_short_pauses_are_no_gaps(clock: list[float]) -> None:
    watched = Gaps(live=True)
    assert not any(arrivals(watched, clock, [0.1] * 50 + [9.0] + [0.1] * 50))
    assert not any(arrivals(watched, clock, [1.0, 100.0, 1.0, 50.0] * 30)[8:])


def test_what_arrives_together_says_nothing_about_pauses(clock: list[float]) -> None:
    watched = Gaps(live=True)
    for _ in range(1000):
        assert watched.before(None) is None
    assert not any(arrivals(watched, clock, [3600.0] * 20))


def test_a_followed_file_has_gaps_by_the_clock(path: Path, clock: list[float]) -> None:
    path.write_text("a\n")
    items = iter(open_source(str(path), follow=True))
    found: list[Reading] = []
    for number in range(30):
        clock[0] += 7200.0 if number == 25 else 60.0
        with path.open("a") as file:
            file.write(f"{number}\n")
        item = next(item for item in items if item is not None)
        assert isinstance(item, Reading)
        found.append(item)
        assert next(items) is None
    assert [n for n, item in enumerate(found) if item.gap] == [25]
    assert not found[25].follows


@pytest.mark.parametrize("place", [4, 5])
def test_a_restart_at_a_row_without_its_time_leaves_only_that_row_out(
    path: Path, place: int
) -> None:
    times = [NOON + 60 * n for n in range(10)]
    write(path, times)
    lines = path.read_text().splitlines()
    lines[place] = ",7"
    path.write_text("\n".join(lines) + "\n")
    bookmark = json.loads(json.dumps(read(path)[2].bookmark))
    found = list(open_source(str(path), follow=False, features=("a",), bookmark=bookmark))
    bad = [item.reason for item in found if not isinstance(item, Reading)]
    assert ["'' is no time" in reason for reason in bad] == [True]
    kept = [time for n, time in enumerate(times) if n >= 3 and n != place - 1]
    assert [item.time for item in found if isinstance(item, Reading)] == kept
