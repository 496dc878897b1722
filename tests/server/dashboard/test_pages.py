"""Pages: their headers, who may send forms, what refusals look like, and what is never HTML."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from elmgrove.server.dashboard.pages import Page, route_of
from elmgrove.server.dashboard.rendering import page
from elmgrove.server.dashboard.session import Form, User
from support.dashboard import Guest, guest
from support.places import ROOT
from support.serving import ADMIN, Limits, Server, charter, refused, serving

#: A page for these tests.
OURS = "/ui/-/ours"
#: What that page was sent.
taken = list[tuple[str, Form]]()


async def _show(request: Request, user: User) -> Response:
    values = {"problem": "", "said": "", "name": "", "next": request.query_params["text"]}
    return page(request, user, "login.html", **values)


async def _take(request: Request, user: User, form: Form) -> Response:
    taken.append((user.name, form))
    return RedirectResponse("/ui/", 303)


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("pages")
    routes = [route_of(Page(OURS, _show, _take))]
    with serving(f"sqlite:///{folder}/store.db", routes=routes) as running:
        yield running


@pytest.fixture(name="ada")
def ada_fixture(server: Server) -> Iterator[Guest]:
    """One who may manage."""
    taken.clear()
    with guest(server, ADMIN) as made:
        yield made


def is_page(answer: httpx.Response, status: int) -> bool:
    kind = answer.headers["content-type"]
    return (answer.status_code, kind) == (status, "text/html; charset=utf-8")


@pytest.mark.parametrize("path", ["/ui/", "/ui/login?x", "/ui/nowhere/", "/ui/a/b/c/d"])
def test_a_page_may_load_what_this_server_serves_and_run_nothing_else(
    server: Server, ada: Guest, path: str
) -> None:
    if path.startswith("/ui/login"):
        ada.http.cookies.clear()
    headers = ada.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert policy.pop("frame-ancestors") == "'none'"
    assert policy.pop("base-uri") == "'none'"
    loads = {"script-src", "style-src", "img-src", "connect-src", "form-action"}
    assert policy == dict.fromkeys(loads, "'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_no_page_has_a_script_or_a_style_of_its_own(ada: Guest) -> None:
    templates = ROOT / "src/elmgrove/server/dashboard/templates"
    for path in templates.iterdir():
        text = path.read_text()
        assert "<style" not in text, path.name
        assert " style=" not in text, path.name
        assert "<script>" not in text, path.name
        assert " onclick=" not in text, path.name
        assert "hx-on" not in text, path.name
        assert "|safe" not in text, path.name


def test_a_form_of_a_page_is_taken(ada: Guest) -> None:
    answer = ada.post(OURS, {"csrf": ada.csrf, "a": "1", "b": "", "ü": "ß &"})
    assert answer.status_code == 303
    ((name, form),) = taken
    assert name == "root"
    assert {"a": "1", "b": "", "ü": "ß &"}.items() <= form.items()


def test_a_form_without_what_its_page_holds_is_refused(server: Server, ada: Guest) -> None:
    with guest(server, ADMIN) as other:
        of_another_session = other.csrf
    for fields in (
        {},
        {"csrf": ""},
        {"csrf": "x" * 43},
        {"csrf": of_another_session},
        {"csrf": "é"},
    ):
        answer = ada.post(OURS, fields)
        assert is_page(answer, 403)
        assert "nothing was changed" in answer.text
    assert not taken


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=str,
)
def test_a_form_that_another_site_sends_is_refused(ada: Guest, headers: dict[str, str]) -> None:
    sent = {"csrf": ada.csrf}
    assert is_page(ada.post(OURS, sent, **headers), 403)
    assert not taken
    assert is_page(ada.post("/ui/login", {"token": ADMIN}, **headers), 403)
    assert is_page(ada.post("/ui/logout", sent, **headers), 403)
    assert ada.is_in
    own = {"Origin": str(ada.http.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    for name, value in own.items():
        assert ada.post(OURS, sent, **{name: value}).status_code == 303


def test_who_may_look_sends_no_form_and_sees_that(server: Server) -> None:
    with guest(server, server.administrator("louis", "look")) as louis:
        assert "may look" in louis.get("/ui/").text
        taken.clear()
        answer = louis.post(OURS, {"csrf": louis.csrf})
        assert is_page(answer, 403)
        assert "&#39;louis&#39; may look and change nothing" in answer.text
        assert not taken
        assert louis.logout().status_code == 303, "but may leave"


def test_who_has_not_logged_in_sends_no_form(server: Server) -> None:
    with guest(server) as nobody:
        taken.clear()
        answer = nobody.post(OURS, {"csrf": ""})
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/login")
        assert not taken


def test_a_form_is_read_within_bounds(ada: Guest) -> None:
    csrf = ada.csrf
    assert is_page(ada.post(OURS, {"csrf": csrf, "a": "x" * 2**14}), 413)
    assert is_page(ada.post(OURS, {"csrf": csrf} | {f"a{n}": "" for n in range(64)}), 400)
    assert is_page(ada.post(OURS, {"csrf": csrf, "a": "\0"}), 400)
    urlencoded = "application/x-www-form-urlencoded"
    for content, kind in (
        (f"csrf={csrf}&a=%ff", urlencoded),
        (b"csrf=" + csrf.encode() + b"&a=\xff", urlencoded),
        (f'{{"csrf": "{csrf}"}}', "application/json"),
        (f"csrf={csrf}", "text/plain"),
    ):
        answer = ada.http.post(OURS, content=content, headers={"Content-Type": kind})
        assert is_page(answer, 400)
    assert not taken


def test_what_is_not_there_is_a_page_for_people_and_a_document_for_programs(
    server: Server, ada: Guest
) -> None:
    for path in ("/ui/nowhere/", "/ui/a/b/c/d"):
        answer = ada.get(path)
        assert is_page(answer, 404)
        assert "Not found" in answer.text
    assert is_page(ada.http.delete("/ui/"), 405)
    refused(server.ask("GET", "/v1/federations/nowhere", ADMIN), "not-found")


def test_the_first_address_leads_to_the_dashboard(server: Server, ada: Guest) -> None:
    assert ada.get("/").headers["location"] == "/ui/"
    made = server.found(charter())
    shown = ada.get("/ui/").text
    assert (
        f'<a href="/ui/{made.charter.name}/?from=now-24h&amp;to=now">{made.charter.name}</a>'
        in shown
    )


def test_a_link_on_another_site_leads_to_the_page_though_browsers_keep_the_cookie_back(
    server: Server,
) -> None:
    with guest(server) as nobody:
        page = nobody.get("/ui/fans/?from=now-1h&x=%22%3E", **{"Sec-Fetch-Site": "cross-site"})
        assert is_page(page, 200)
        assert 'content="0;url=/ui/fans/?from=now-1h&amp;x=%22%3E"' in page.text
        again = nobody.get("/ui/fans/", **{"Sec-Fetch-Site": "same-origin"})
        assert again.status_code == 303, "once is enough"


@pytest.mark.parametrize("path", ["", "audit", "devices/fan-1"])
def test_the_address_of_a_page_says_which_time_it_shows(
    server: Server, ada: Guest, path: str
) -> None:
    made = server.found(charter())
    made.enrol("fan-1")
    root = f"/ui/{made.charter.name}/"
    answer = ada.http.get(f"{root}{path}?search=x")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{root}{path}?search=x&from=now-24h&to=now"
    half = ada.http.get(f"{root}{path}?from=now-1h").headers["location"]
    assert half == f"{root}{path}?from=now-1h&to=now"
    ranged = re.compile(rf'href="({re.escape(root)}(?:audit|devices/[^?"]*)?|)(\?[^"]*)?"')
    links = ranged.findall(ada.get(f"{root}{path}").text)
    assert len(links) >= 3
    assert all("from=" in query and "to=" in query for _, query in links), links


def test_a_part_of_a_page_that_is_asked_for_too_late_leads_the_page_to_the_login(
    server: Server,
) -> None:
    with guest(server) as nobody:
        here = f"{server.base}/ui/fans/?search=x"
        answer = nobody.get("/ui/fans/", **{"HX-Request": "true", "HX-Current-URL": here})
        assert answer.status_code == 401
        assert answer.headers["hx-redirect"] == "/ui/login?next=%2Fui%2Ffans%2F%3Fsearch%3Dx"
        assert not answer.content


def test_a_session_is_limited_as_a_key_is_and_told_on_a_page(tmp_path: Path) -> None:
    store, limits = f"sqlite:///{tmp_path}/store.db", Limits(rate_by_key=1.0, rate_by_address=1.0)
    with serving(store, limits=limits) as tight, guest(tight, ADMIN) as ada, guest(tight) as nobody:
        # The address has used up what it may, and the session has its own.
        answers = [nobody.get("/ui/login") for _ in range(15)]
        assert is_page(answers[-1], 429)
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert ada.is_in
        answers = [ada.get("/ui/") for _ in range(15)]
        assert {one.status_code for one in answers} == {200, 429}
        assert "with this key" in answers[-1].text


def test_text_is_never_html(ada: Guest) -> None:
    text = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    for path in (f"/ui/{text}/", "/ui/nowhere/"):
        assert "<script>alert" not in ada.get(path).text
        assert "<img" not in ada.get(path).text
    ada.http.cookies.clear()
    login = ada.login(name=text, password=text)
    assert "&lt;script&gt;alert(1)" in login.text
    for answer in (login, ada.http.get("/ui/login", params={"next": f"/ui/{text}"})):
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
