"""Brokers that are none: they say nothing, nonsense, too much or too little."""

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress

#: What a broker says to one that it lets in.
LET_IN = bytes([0x20, 3, 0, 0, 0])
#: What a device published, and what a broker then gives out: topics and payloads.
Answers = Callable[[str, bytes], Iterable[tuple[str, bytes]]]


@contextmanager
def false_broker(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Answers each connection so, once its first bytes came; gives the port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as door:
        lines = list[socket.socket]()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    line, _ = door.accept()
                    lines.append(line)
                    threading.Thread(target=speak, args=(line,), daemon=True).start()

        def speak(line: socket.socket) -> None:
            with suppress(OSError):
                line.recv(1 << 16, socket.MSG_PEEK)
                answer(line)
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        try:
            yield int(door.getsockname()[1])
        finally:
            # Else who accepts would wait on.
            door.shutdown(socket.SHUT_RDWR)
            serving.join(60)
            for line in lines:
                line.close()


def scripted(
    published: Answers = lambda topic, payload: [],
    *,
    retained: Callable[[], Iterable[tuple[str, bytes]]] = list,
    answers: Callable[[bytes], bool] = lambda number: True,
) -> Callable[[socket.socket], None]:
    """Speaks as much MQTT 5 as a device needs.

    It gives out what is ``retained`` after a subscription, and what ``published`` says of a
    message; where that raises ``OSError`` it hangs up, and where that is ``TimeoutError`` it says
    nothing. It ends a subscription if it ``answers``.
    """

    def publish(line: socket.socket, body: bytes) -> None:
        size = int.from_bytes(body[:2], "big")
        topic, number = body[2 : 2 + size].decode(), body[2 + size : 4 + size]
        with suppress(TimeoutError):
            given_out = published(topic, body[5 + size :])
            line.sendall(bytes([0x40, 2]) + number)
            for given in given_out:
                line.sendall(publication(*given))

    def subscribe(line: socket.socket, body: bytes) -> None:
        reply = body[:2] + b"\0" + bytes(_topics(body))
        line.sendall(bytes([0x90, len(reply)]) + reply)
        for given in retained():
            line.sendall(publication(*given))

    def unsubscribe(line: socket.socket, body: bytes) -> None:
        if answers(body[:2]):
            line.sendall(bytes([0xB0, 4]) + body[:2] + b"\0\0")

    kinds = {
        1: lambda line, body: line.sendall(LET_IN),
        3: publish,
        8: subscribe,
        10: unsubscribe,
        12: lambda line, body: line.sendall(bytes([0xD0, 0])),
    }

    def answer(line: socket.socket) -> None:
        with line.makefile("rb") as heard:
            while first := heard.read(1):
                body = heard.read(_length(heard.read))
                kinds.get(first[0] >> 4, lambda line, body: None)(line, body)

    return answer


def publication(topic: str, payload: bytes) -> bytes:
    """A message as it is given out, with QoS 0 and retained."""
    name = topic.encode()
    body = len(name).to_bytes(2, "big") + name + b"\0" + payload
    return bytes([0x31]) + _written(len(body)) + body


def _length(read: Callable[[int], bytes]) -> int:
    size, shift = 0, 0
    while True:
        (byte,) = read(1)
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return size


def _written(size: int) -> bytes:
    found = bytearray()
    while True:
        size, low = divmod(size, 128)
        found.append(low | (128 if size else 0))
        if not size:
            return bytes(found)


def _topics(body: bytes) -> int:
    """How many topics a subscription names."""
    at, count = 3 + body[2], 0
    while at < len(body):
        at += 3 + int.from_bytes(body[at : at + 2], "big")
        count += 1
    return count
