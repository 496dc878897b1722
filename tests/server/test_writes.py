"""A data base that takes nothing: the log says why, and /ready says so until it takes again."""

import logging
from pathlib import Path

import asyncpg
import pytest

from elmgrove.errors import StoreUnavailable
from elmgrove.server.store.postgres import translated
from support.faults import Disk, full
from support.faults import disk_fixture as disk_fixture
from support.serving import Federation, charter, refused, seeded_contribution, serving, wait_until


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]


def require_failing(
    fans: Federation, reason: str, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Checks what is answered and logged while nothing can be written."""
    for rows in range(50, 55):
        problem = refused(fans.put(seeded_contribution("fan-1", 1, rows)), "unavailable")
        assert problem["detail"] == f"{reason}: try again later"
        ready = refused(fans.server.ask("GET", "/ready"), "unavailable")
        assert ready["detail"] == f"{reason}: try again later"
    assert fans.server.ask("GET", "/health").status_code == 200
    (line,) = errors(caplog)
    assert line.startswith("Writes to the store fail")
    assert code in line


def test_a_full_disk_is_told_until_there_is_room_again(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.remount("size=2m")
    with serving(f"sqlite:///{disk.path}/store.db") as server:
        fans = server.found(charter())
        fans.enrol("fan-1")
        assert server.ask("GET", "/ready").status_code == 200
        room = disk.path / "room"
        with pytest.raises(OSError, match="space"):
            room.write_bytes(bytes(1 << 22))
        require_failing(fans, "disk full", "SQLITE_FULL", caplog)
        room.unlink()
        # Asking is enough: it tries by itself.
        wait_until(lambda: server.ask("GET", "/ready").status_code == 200)
        assert fans.put(seeded_contribution("fan-1", 1, 60)).status_code == 200
        assert len(errors(caplog)) == 1


def test_a_disk_that_fails_is_told_until_it_works_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(f"sqlite:///{tmp_path}/store.db") as server:
        fans = server.found(charter())
        fans.enrol("fan-1")
        with full(4096):
            require_failing(fans, "disk I/O error", "SQLITE_IOERR_WRITE", caplog)
        wait_until(lambda: server.ask("GET", "/ready").status_code == 200)
        assert fans.put(seeded_contribution("fan-1", 1, 60)).status_code == 200


def test_what_breaks_inside_asyncpg_can_be_asked_again() -> None:
    with pytest.raises(StoreUnavailable, match="unknown protocol state"), translated():
        raise asyncpg.InternalClientError("got result for unknown protocol state 3")
