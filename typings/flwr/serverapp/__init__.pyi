from collections.abc import Callable, Iterable

from flwr.app import Context, Message

class Grid:
    def get_node_ids(self) -> Iterable[int]: ...
    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]: ...

_Main = Callable[[Grid, Context], None]

class ServerApp:
    def __init__(self) -> None: ...
    def main(self) -> Callable[[_Main], _Main]: ...
