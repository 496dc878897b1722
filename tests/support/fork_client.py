"""What a shell of the tests finds under the name ``elmgrove``: a client of the fork server.

It is run as a program, by itself and without what is installed, so that it begins at once. The fork
that it asks for has its files, folder and environment; its signals go there, and its exit code is
the fork's.
"""

import fcntl
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

#: The variable that says which open file is the fork server's socket.
SOCKET = "FORK_SERVER"
_COMMAND = "from elmgrove.cli import main; main()"
_STATUS = 4  # bytes of a process's number, and of what ``wait`` says of it
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Runs the command, and ends as it does."""
    status, told = os.pipe()
    # One that comes before anybody is there to get it has to wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    pid = _ask(told)
    os.close(told)
    for number in _PASSED_ON:
        signal.signal(number, lambda number, _: _pass_on(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    code = os.waitstatus_to_exitcode(int.from_bytes(os.read(status, _STATUS)))
    sys.exit(code if code >= 0 else 128 - code)


def _pass_on(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, number)


def _ask(told: int) -> int:
    """The number of the process that was begun."""
    environment = {name: value for name, value in os.environ.items() if name != SOCKET}
    asked = json.dumps([_COMMAND, sys.argv[1:], str(Path.cwd()), environment]).encode()
    # All in a pipe ask by the same socket: each has to get its own answer.
    with Path(__file__).open() as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        with socket.socket(fileno=int(os.environ[SOCKET])) as asking:
            socket.send_fds(asking, [asked], [0, 1, 2, told])
            return int.from_bytes(asking.recv(_STATUS))


if __name__ == "__main__":
    main()
