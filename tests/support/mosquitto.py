"""A real broker for tests: Debian's mosquitto, on a port of its own, that comes and goes."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from elmgrove.exchange.base import Tls
from support.places import ROOT
from support.ports import reserved_port
from support.serving import Authority, wait_until

EXAMPLE = ROOT / "examples" / "mosquitto"
#: What a broker holds is kept, and limits are those that come with it.
_KEPT = """\
persistence true
persistence_location {folder}/
"""
_LOGGED = """\
log_dest file {folder}/mosquitto.log
log_type error
log_type warning
log_type notice
"""


@dataclass
class Mosquitto:
    """A broker that keeps what it retains in a folder, and may be stopped and started again."""

    folder: Path
    port: int
    config: Path
    tls: Tls | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def url(self, topic: str, user: str = "") -> str:
        who, scheme = f"{user}@" if user else "", "mqtts" if self.tls else "mqtt"
        return f"{scheme}://{who}127.0.0.1:{self.port}/{topic}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            ["mosquitto", "-c", str(self.config)], stderr=subprocess.DEVNULL
        )
        wait_until(self._answers)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends it: so that it can save, or by SIGKILL so that it can't."""
        process, self.process = self.process, None
        assert process is not None

        def ended() -> bool:
            # More than once: a broker that has just begun misses the signal.
            process.send_signal(how)
            return process.poll() is not None

        wait_until(ended)

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "mosquitto.log").read_text()
        with closing(socket.socket()) as line, suppress(ConnectionRefusedError):
            line.connect(("127.0.0.1", self.port))
            return True
        return False


@contextmanager
def running_broker(
    folder: Path,
    config: str = "",
    *,
    users: Mapping[str, str] | None = None,
    acl: str = "",
    authority: Authority | None = None,
) -> Iterator[Mosquitto]:
    """Runs a broker: with ``users`` and their passwords, without them open to everybody.

    An ``authority`` signs its certificate; ``config`` are more lines of its configuration.
    """
    lines = ["listener {port} 127.0.0.1", _KEPT.format(folder=folder), config]
    lines.append(f"allow_anonymous {str(not users).lower()}")
    if users:
        lines.append(f"password_file {_passwords(folder, users)}")
    if acl:
        lines.append(f"acl_file {_private(folder / 'acl', acl)}")
    if authority is not None:
        files = authority.signed("127.0.0.1")
        lines += [f"certfile {files['certificate']}", f"keyfile {files['private_key']}"]
        lines.append(f"cafile {authority.ca}")
    with _running(folder, "\n".join(lines), authority) as broker:
        yield broker


@contextmanager
def example_broker(
    folder: Path, users: Mapping[str, str], authority: Authority
) -> Iterator[Mosquitto]:
    """Runs a broker as the files in examples/mosquitto say, with files of the test's own."""
    files = authority.signed("127.0.0.1")
    text = (EXAMPLE / "mosquitto.conf").read_text()
    acl = _private(folder / "elmgrove.acl", (EXAMPLE / "elmgrove.acl").read_text())
    for stated, own in {
        "listener 8883": "listener {port} 127.0.0.1",
        "/etc/mosquitto/certs/broker.pem": files["certificate"],
        "/etc/mosquitto/certs/broker.key": files["private_key"],
        "/etc/mosquitto/elmgrove.passwords": str(_passwords(folder, users)),
        "acl_file /etc/mosquitto/elmgrove.acl": f"acl_file {acl}",
        "persistence_location /var/lib/mosquitto/": f"persistence_location {folder}/",
    }.items():
        assert text.count(stated) == 1, stated
        text = text.replace(stated, own)
    with _running(folder, text, authority) as broker:
        yield broker


@contextmanager
def _running(folder: Path, config: str, authority: Authority | None) -> Iterator[Mosquitto]:
    with reserved_port() as port:
        path = folder / "mosquitto.conf"
        # As root it would become somebody who can't read here.
        user = "user root\n" if os.getuid() == 0 else ""
        path.write_text(f"{config.format(port=port)}\n{_LOGGED.format(folder=folder)}{user}")
        broker = Mosquitto(folder, port, path, Tls(authority.ca) if authority else None)
        broker.start()
        try:
            yield broker
        finally:
            if broker.process is not None:
                broker.stop()


def _passwords(folder: Path, users: Mapping[str, str]) -> Path:
    path = _private(folder / "passwords", "")
    for user, password in users.items():
        subprocess.run(["mosquitto_passwd", "-b", str(path), user, password], check=True)
    return path


def _private(path: Path, text: str) -> Path:
    path.touch(0o600)
    path.write_text(text)
    return path
