"""A server that is killed at any moment keeps what it acknowledged, and makes nothing up."""

import os
import random
import threading
from dataclasses import dataclass
from pathlib import Path

import httpx

from elmgrove import Evidence
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.merged import Merged
from support.factories import normal_rows
from support.ports import free_port
from support.serving import (
    ADMIN,
    Federation,
    Server,
    charter,
    fan_evidence,
    killed_at_the_end,
    wait_until,
)

#: How often it is killed; .ci/run asks for more.
KILLS = int(os.environ.get("ELMGROVE_TEST_KILLS", "8"))
EVIDENCE = [fan_evidence(normal_rows(seed, 5)) for seed in range(17)]


@dataclass
class Publisher:
    """A device that publishes as fast as it can, and remembers what it was told."""

    name: str
    sent: int = 0
    acknowledged: int = 0
    answers: int = 0
    is_busy: bool = False

    def contribution(self, epoch: int) -> Contribution:
        return Contribution(self.name, epoch, (EVIDENCE[(epoch + len(self.name)) % len(EVIDENCE)],))

    def publish(self, fans: Federation) -> None:
        """Until the server is gone."""
        with fans.client(self.name) as http:
            while True:
                self.sent += 1
                self.is_busy = True
                blob = self.contribution(self.sent).to_bytes()
                try:
                    answer = http.put(f"{fans.path}/contributions/{self.name}", content=blob)
                except httpx.TransportError:
                    self.is_busy = False
                    return
                assert answer.status_code == 200, answer.text
                self.acknowledged = self.sent
                self.answers += 1


def test_what_was_acknowledged_survives_any_number_of_kills(tmp_path: Path) -> None:
    store, port, moment = f"sqlite:///{tmp_path}/store.db", free_port(), random.Random(1)
    publishers = [Publisher("a" * length) for length in range(1, 5)]
    server = Server(f"http://127.0.0.1:{port}", store)
    with killed_at_the_end(store, port), server.http:
        fans = server.found(charter())
        fans.enrol(*(publisher.name for publisher in publishers))
    for kill in range(KILLS):
        with killed_at_the_end(store, port):
            check(fans.at(Server(server.base, store)), publishers)
            threads = [threading.Thread(target=p.publish, args=(fans,)) for p in publishers]
            for thread in threads:
                thread.start()
            # At any moment, but not by the clock: a slow machine would be killed at its start.
            answers = sum(p.answers for p in publishers) + moment.randrange(30)
            wait_until(lambda: all(p.is_busy for p in publishers))
            wait_until(lambda least=answers: sum(p.answers for p in publishers) >= least)
            if kill == 0:
                wait_until(lambda: all(p.answers for p in publishers))
        for thread in threads:
            thread.join()
    with killed_at_the_end(store, port):
        check(fans.at(Server(server.base, store)), publishers)
    assert all(publisher.acknowledged > 0 for publisher in publishers)


def check(fans: Federation, publishers: list[Publisher]) -> None:
    with fans.server.http:
        held = {name: entry["epoch"] for name, entry in fans.entries().items()}
        assert set(held) <= {publisher.name for publisher in publishers}
        for publisher in publishers:
            epoch = held.get(publisher.name, 0)
            assert publisher.acknowledged <= epoch <= publisher.sent
            if epoch:
                got = fans.ask("GET", f"/contributions/{publisher.name}", ADMIN)
                assert got.content == publisher.contribution(epoch).to_bytes()
        contributions = [p.contribution(held[p.name]) for p in publishers if p.name in held]
        merged = Merged.from_bytes(fans.ask("GET", "/merged", ADMIN).content)
        assert merged.devices == len(contributions)
        parts = [contribution.evidence for contribution in contributions]
        assert merged.evidence.close_to(Evidence.sum([Evidence.zero(fans.charter.basis), *parts]))
