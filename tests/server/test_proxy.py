"""Behind nginx, under a prefix of paths, through TLS: devices, administrators and the dashboard."""

import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from elmgrove.exchange.session import connect
from support.commands import Elmgrove
from support.dashboard import Windows
from support.factories import normal_rows
from support.places import ROOT
from support.ports import free_port
from support.serving import ADMIN, Authority, Server, answers, charter, serving, wait_until

EXAMPLE = ROOT / "examples" / "nginx" / "elmgrove.conf"


@contextmanager
def proxied(authority: Authority, upstream: str, takes_off: bool) -> Iterator[str]:
    """The address at which nginx shows a server as the example says, through TLS.

    ``takes_off`` is whether it takes the prefix off before it asks the server.
    """
    folder, port, files = authority.folder, free_port(), authority.signed("127.0.0.1")
    location = EXAMPLE.read_text().replace("http://127.0.0.1:8470", upstream + "/" * takes_off)
    (folder / "nginx.conf").write_text(
        f"""daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; user root;
        events {{}}
        http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};
        server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {files["certificate"]};
        ssl_certificate_key {files["private_key"]}; {location} }} }}"""
    )
    command = ["nginx", "-e", f"{folder}/nginx.log", "-c", f"{folder}/nginx.conf"]
    with subprocess.Popen(command, cwd=folder) as running:
        try:
            wait_until(lambda: answers(port) or running.poll() is not None)
            assert running.poll() is None, (folder / "nginx.log").read_text()
            yield f"https://127.0.0.1:{port}/elmgrove"
        finally:
            running.terminate()


@pytest.fixture(name="behind", params=[False, True], ids=["prefix kept", "prefix taken off"])
def behind_fixture(
    request: pytest.FixtureRequest, nginx: None, authority: Authority
) -> Iterator[Server]:
    """A server as it is reached through nginx."""
    store = f"sqlite:///{authority.folder}/store.db"
    with (
        serving(store, root_path="/elmgrove", proxies="127.0.0.1") as server,
        proxied(authority, server.base, request.param) as base,
    ):
        made = Server(base, store)
        trusted = ssl.create_default_context(cafile=authority.ca)
        made.http = httpx.Client(base_url=base, timeout=60, verify=trusted)
        with made.http:
            yield made


def test_devices_and_administrators_reach_it(
    behind: Server, authority: Authority, elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    fans = behind.found(charter())
    url = f"{behind.base}/{fans.charter.name}"
    with connect(url, "fan-1", token=fans.token, ca=authority.ca) as session:
        session.detector.learn_many(normal_rows(1, 60))
        assert session.sync().refusal is None
    assert list(fans.entries()) == ["fan-1"]
    monkeypatch.setenv("ELMGROVE_ADMIN_TOKEN", ADMIN)
    ran = elmgrove("federation", "--server", behind.base, "--ca", authority.ca, "show")
    assert (ran.code, ran.out.split()) == (0, [fans.charter.name]), ran.err


def test_all_that_a_page_names_is_below_the_prefix(behind: Server) -> None:
    fans = behind.found(charter())
    fans.enrol("fan 3/ü")
    asked = behind.http.get("/ui/")
    assert asked.headers["location"] == "/elmgrove/ui/login?next=%2Felmgrove%2Fui%2F"
    origin = behind.base.removesuffix("/elmgrove")
    sent = {"token": ADMIN, "next": "/elmgrove/ui/"}
    answer = behind.http.post("/ui/login", data=sent, headers={"Origin": origin})
    assert answer.headers["location"] == "/elmgrove/ui/"
    assert answer.headers["set-cookie"].startswith("__Host-elmgrove=")
    pages, seen = ["/ui/"], set[str]()
    while pages:
        path = pages.pop()
        answer = behind.http.get(path, follow_redirects=True)
        assert answer.status_code == 200, path
        named = re.findall(r'(?:href|src|action|hx-get|hx-sse:connect)="([^"#][^"]*)"', answer.text)
        for one in named:
            assert one.startswith(("/elmgrove/ui/", "?")), (path, one)
            own = one.removeprefix("/elmgrove").partition("?")[0]
            if own and own not in seen and not own.endswith(("/live", "/logout", "/login")):
                seen.add(own)
                pages.append(own)
    assert any("/devices/fan%203%2F" in one for one in seen)
    empty = behind.found(charter())
    page = behind.http.get(f"/ui/{empty.charter.name}/", follow_redirects=True)
    assert f"--exchange {behind.base}/{empty.charter.name}" in page.text


def test_callers_are_told_apart_by_their_own_addresses(behind: Server) -> None:
    statuses = [
        behind.http.post("/ui/login", data={"token": f"guess-{number}"}).status_code
        for number in range(11)
    ]
    assert statuses == [403] * 10 + [429], "all by this machine, whatever it claims"


def test_a_page_in_a_browser_is_live(behind: Server, windows: Windows) -> None:
    fans = behind.found(charter())
    page = windows.open(behind.base.removesuffix("/elmgrove"), ignore_https_errors=True)
    page.goto("/elmgrove/ui/login")
    page.get_by_label("Token").fill(ADMIN)
    page.get_by_role("button", name="Log in").first.click()
    page.wait_for_url("**/elmgrove/ui/")
    page.goto(f"/elmgrove/ui/{fans.charter.name}/")
    page.get_by_text("Live", exact=True).wait_for()
    fans.enrol("fan-1")
    page.get_by_role("link", name="fan-1").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/elmgrove/ui/login?out")
