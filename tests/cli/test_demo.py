"""The demo keeps what it promises: its story, its picture, and the fleet that goes on."""

import re
import signal
from pathlib import Path

from support.agents import sessions
from support.demo import PUMPS, Demo, started
from support.serving import wait_until

BREAKS, MOVES, LEAVES, WARMS, LATE = PUMPS


def test_it_keeps_all_its_promises(demo: Demo) -> None:
    assert "15 of 15 promises were kept." in demo.text
    assert "Not so in this run" not in demo.text


def test_it_tells_the_story(demo: Demo) -> None:
    text = " ".join(demo.text.split())
    for told in (
        r"The pumps are simulated: equations make their rows",
        rf"{WARMS} \(steady, about 70 m³/h\): [\d,]+ rows\. It would notice an error of vibration",
        r"Each sent its sums, \d\.\d KiB, and no row\.",
        r"rows 4 of 4 watch .* Alarms: 0\.",
        rf"{MOVES} moves to another operating point, .* Alarm: \d+ rows, normal at {LEAVES};",
        rf"a new normal or a fault\? \(normal at {LEAVES}\) accept or reject",
        r"Somebody accepts it: \d+ rows were learned as a new normal\.",
        rf"{WARMS} starts cold .*, and warms up\. Alarm: \d+ rows, normal at {LEAVES};",
        rf"{BREAKS}: its bearing begins to wear\. Alarm after \d+ minutes; \d+ rows, "
        r"normal nowhere: vibration \S+ mm/s \(not \S+\), temperature",
        r"It learns 300 rows .* next 120 rows, all normal, it flags \d+\.",
        r"Its impeller clogs: alarm with row \d+, (9\d|100)% of rows flagged",
        rf"those of a fleet that never had {LEAVES}, to",
    ):
        assert re.search(told, text), told


def test_it_ends_with_the_dashboards_address_and_how_to_log_in(demo: Demo) -> None:
    assert re.search(r"Dashboard: http://127\.0\.0\.1:\d+/ui/\s", demo.text)
    assert re.search(r"token:\s+[\w-]{43}\s", demo.text)


def test_the_fleet_goes_on_with_rows_of_each_pump(demo: Demo) -> None:
    assert set(demo.streamed) == set(PUMPS)
    assert min(demo.streamed.values()) > 0
    assert f"{LEAVES} works in batches" in demo.text


def test_a_signal_ends_all_its_processes(tmp_path: Path) -> None:
    with started(tmp_path / "made" / "demo") as ran:
        wait_until(lambda: bool(list(tmp_path.glob("elmgrove-demo-*/pump-*.log"))))
        assert ran.pid in sessions()
        ran.send_signal(signal.SIGTERM)
        _, err = ran.communicate(timeout=300)
    assert ran.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err
    assert ran.pid not in sessions()
    assert not list(tmp_path.glob("elmgrove-demo-*"))


def test_it_draws_a_picture(demo: Demo) -> None:
    picture = (demo.folder / "demo.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.endswith(b"IEND\xaeB`\x82")
    assert 10_000 < len(picture) < 1_000_000
