"""Addresses that a request claims in X-Forwarded-For: believed from stated proxies alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from elmgrove.errors import BadInput
from elmgrove.server.app import trusted_proxies
from elmgrove.server.dashboard.session import TRIES_BY_ADDRESS
from support.ports import free_port
from support.serving import answers, process, wait_until


@contextmanager
def guesser(folder: Path) -> Iterator[tuple[httpx.Client, Path]]:
    """Somebody on this machine, at a server of its own, and the server's log."""
    port, log = free_port(), folder / "log"
    with process(f"{folder}/store.db", port=port, log=log, log_level="warning"):
        wait_until(lambda: answers(port))
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            yield client, log


def guesses(client: httpx.Client) -> list[int]:
    """What each guess is answered, each from another address as it claims."""
    return [
        client.post(
            "/ui/login",
            content=f"token=guess-{number}",
            headers={
                "Content-Type": "application/x-www-form-urlencoded",
                "X-Forwarded-For": f"203.0.113.{number}",
            },
        ).status_code
        for number in range(TRIES_BY_ADDRESS + 1)
    ]


def test_a_caller_that_claims_other_addresses_is_limited_by_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    with guesser(tmp_path) as (client, log):
        assert guesses(client) == [403] * TRIES_BY_ADDRESS + [429]
        assert "set FORWARDED_ALLOW_IPS=127.0.0.1" in log.read_text()


def test_a_stated_proxy_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.1.2.0/24, 127.0.0.1")
    with guesser(tmp_path) as (client, log):
        assert guesses(client) == [403] * (TRIES_BY_ADDRESS + 1)
        assert "X-Forwarded" not in log.read_text()


@pytest.mark.parametrize("stated", ["*", "0.0.0.0/0", "127.0.0.1, 128.0.0.0/1", "::/0"])
def test_not_everybody_can_be_a_proxy(monkeypatch: pytest.MonkeyPatch, stated: str) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", stated)
    with pytest.raises(BadInput, match="addresses or networks of your proxies"):
        trusted_proxies()
