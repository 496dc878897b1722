"""Ports that are the test's own: where nobody listens, or where its server comes and goes."""

import atexit
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that no other program gets meanwhile.

    Connections to it are refused until a server of the test's own listens there, and again once
    that server has ended: a socket that is bound and does not listen keeps others away.
    """
    with closing(socket.socket()) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


_kept = ExitStack()
atexit.register(_kept.close)


def free_port() -> int:
    """A port for a server of this test, and for nobody else until this process ends.

    Servers listen there although it is bound: they set SO_REUSEADDR, too.
    """
    return _kept.enter_context(reserved_port())
