"""Messages of a broker on their way to the agent's thread."""

import signal
import time
from contextlib import closing
from itertools import count

from elmgrove.device.mqtt import Access
from elmgrove.device.sources.mqtt import subscribed


def test_a_signal_in_the_last_moment_of_a_wait_does_not_make_it_last_for_ever() -> None:
    calls = count(1)

    def handle(*_: object) -> None:
        assert next(calls) == 1, "it still waits"
        time.sleep(0.2)  # on a busy machine the wait is over when the agent's thread is back

    # Nobody is at that port, so no message will come.
    with closing(subscribed("mqtt://127.0.0.1:9/rows", "", "pump-1", Access())) as rows:
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05, 20.0)
            assert rows.next(0.1) is None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
