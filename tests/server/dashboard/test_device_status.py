"""What a device last told of itself: rows that wait, and by which clock its rows are."""

import pytest

from elmgrove.server.dashboard.device_page import DeviceStatus, clock_warning
from elmgrove.server.store.reports import StoredReport
from support.reports import status


def test_rows_in_quarantine_are_shown_where_they_were_told() -> None:
    row = {"time": 1714573200.0, "score": 9.5, "values": {"flow": 22.0, "power": None}}
    found = DeviceStatus.of({"status": status(quarantine=2), "quarantine": [{}, row]})
    assert (found.waiting, found.columns) == (2.0, ("flow", "power"))
    assert found.rows is not None
    assert (found.rows[0].time, found.rows[0].values) == (1714573200.0, (22.0, None))
    assert DeviceStatus.of({"status": status(), "quarantine": None}).rows is None


@pytest.mark.parametrize(
    ("ahead", "every", "said"),
    [
        ([-70.0, -20.0], 60.0, ""),
        ([200.0], 60.0, ""),
        ([420.0], 60.0, "7 min ahead of"),
        ([5.5 * 3600 - 90], 60.0, "5.5 h ahead of"),
        ([40 * 86_400.0], None, "960 h ahead of"),
        ([-5 * 3600 - 80.0, -5 * 3600 - 30.0], 60.0, "5 h behind"),
        # One hour came late, or all at once: the clock is right.
        ([-1800.0 - 60.0, -60.0], 60.0, ""),
        ([-3600.0 - 60.0, -7200.0 - 60.0], 60.0, ""),
        ([-2000.0 - 900.0, -2000.0 - 900.0], 60.0, ""),
        ([-1900.0, -1900.0], 3600.0, ""),
        ([-30 * 86_400.0, -30 * 86_400.0], 60.0, ""),
        ([-5 * 3600.0], 60.0, ""),
        ([], 60.0, ""),
    ],
)
def test_rows_of_another_zone_are_told_from_rows_that_come_late(
    ahead: list[float], every: float | None, said: str
) -> None:
    now = 1714573200.0
    begun = [now - 3600.0 * n for n in range(len(ahead))]
    hours = [(at + one, at + one, at) for at, one in zip(begun, ahead, strict=True)]
    heard = StoredReport("pump", now, now, None, {"status": status(sync_seconds=every)})
    found = clock_warning(hours, heard)
    assert found.startswith(f"Its rows are {said} the clock here") if said else found == ""
