"""All recipients of alarms."""

import time
from collections.abc import Callable

from elmgrove.device.alarms.command import Command
from elmgrove.device.alarms.courier import Courier, Message, Wait


class Alarms:
    """Passes alarms on, in the background and in order.

    An address gets each as a POST of JSON; a server's failure or a lost connection is tried
    again, a refusal (4xx) is not. A command gets it as JSON on its standard input and is run
    without a shell. While a recipient can't be reached the newest alarms wait in memory: a
    restart loses them, the file of verdicts does not.
    """

    def __init__(self, webhook: str | None, command: str | None) -> None:
        # Both are looked at before a thread starts, so that a refusal leaves none behind.
        tells: list[Callable[[Message, Wait], None]] = []
        if webhook is not None:
            # Here, since importing httpx takes time that most devices need not spend.
            from elmgrove.device.alarms.webhook import Webhook

            tells.append(Webhook(webhook).tell)
        if command is not None:
            tells.append(Command(command).tell)
        self._couriers = [Courier(tell) for tell in tells]

    def raise_(self, message: Message) -> None:
        """Takes an alarm to deliver; returns at once, and never fails."""
        for courier in self._couriers:
            courier.take(message)

    def close(self, timeout: float) -> None:
        """Delivers what waits, as far as that goes within ``timeout`` seconds."""
        end = time.monotonic() + timeout
        for courier in self._couriers:
            courier.hurry()
        for courier in self._couriers:
            courier.finish(max(0.0, end - time.monotonic()))
