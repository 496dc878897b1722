"""The pages of a federation and its audit: who explains whom, groups, a token, what was refused."""

import re
import threading
import time
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from elmgrove.federation.contribution import Contribution
from elmgrove.federation.selection import Judgement, judge
from elmgrove.server.dashboard import federation_page
from elmgrove.server.dashboard.federation_page import Comparisons, GroupPicture, explained
from elmgrove.server.dashboard.rendering import iso
from support.dashboard import Guest, guest
from support.factories import normal_rows
from support.serving import ADMIN, Federation, Server, charter, fan_evidence, serving, wait_until


@pytest.fixture(name="fans")
def fans_fixture(server: Server) -> Federation:
    """Two that are alike, and one that is not."""
    made = server.found(charter(merged=False))
    made.enrol("fan-1", "fan-2", "<b>oven")
    for name, X in (
        ("fan-1", normal_rows(1, 200)),
        ("fan-2", normal_rows(2, 200)),
        ("<b>oven", 50.0 + normal_rows(3, 200)),
    ):
        answer = made.put(Contribution(name, 200, (fan_evidence(X),), 1.0))
        assert answer.status_code == 200, answer.text
    return made


def shown(who: Guest, fans: Federation, page: str) -> str:
    return who.read(f"/ui/{fans.charter.name}/{page}")


def test_who_explains_whom_is_the_judgement_of_their_sums(fans: Federation, ada: Guest) -> None:
    parts = [
        (n, fan_evidence(X))
        for n, X in (("fan-1", normal_rows(1, 200)), ("fan-2", normal_rows(2, 200)))
    ]
    found = explained(judge([Contribution(n, 1, (e,)) for n, e in parts], fans.charter.ridge), 2)
    assert found.names == ("fan-1", "fan-2")
    assert [line[place].text for place, line in enumerate(found.lines)] == ["1.0", "1.0"]
    # Where all are compared with each other for the first time, the page does not wait for it.
    wait_until(lambda: "2 devices:" in shown(ada, fans, "federation"))
    page = shown(ada, fans, "federation")
    assert "Unlike all others here: <b>oven." in page
    html = ada.get(f"/ui/{fans.charter.name}/federation").text
    assert "2 devices: fan-1, fan-2" in page
    assert "1 device: <b>oven" in page
    assert "<b>oven" not in html
    assert html.count("heat-0") >= 5, "the diagonal, and those that are alike"


def test_many_devices_are_compared_as_far_as_can_be_seen(server: Server, ada: Guest) -> None:
    many = server.found(charter(merged=False))
    names = [f"fan-{n:02}" for n in range(Comparisons.MOST + 3)]
    many.enrol(*names)
    part = fan_evidence(normal_rows(1))
    for name in names:
        assert many.put(Contribution(name, 20, (part,))).status_code == 200
    page = shown(ada, many, "federation")
    assert (
        f"Shown are the {Comparisons.MOST} of {len(names)} devices that contributed last." in page
    )


def test_one_that_gave_too_few_rows_hides_nobody_and_costs_no_token(
    server: Server, ada: Guest
) -> None:
    """Without a ridge there is no model of it."""
    made = server.found(charter(merged=False, ridge=0.0))
    made.enrol("fan-1", "fan-2", "few")
    for name, number in (("fan-1", 200), ("fan-2", 200), ("few", 2)):
        answer = made.put(Contribution(name, number, (fan_evidence(normal_rows(number, number)),)))
        assert answer.status_code == 200, answer.text
    page = shown(ada, made, "federation")
    assert "Model of fan-1 fan-2 fan-1" in page
    assert "Left out, since they gave too few rows for a model of their own: few." in page
    path = f"/ui/{made.charter.name}/federation"
    assert "_TOKEN=elm-join-" in ada.post(path, {"csrf": ada.csrf, "do": "token"}).text


def test_what_fails_in_a_comparison_is_a_sentence(
    fans: Federation, ada: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(held: object, ridge: float) -> Judgement:
        raise FloatingPointError("beyond all numbers")

    monkeypatch.setattr(federation_page, "judge", fail)
    wait_until(lambda: "2 devices:" in shown(ada, fans, "federation"))
    page = shown(ada, fans, "federation")
    assert "This could not be computed; the server's log says why." in page
    assert "2 devices: fan-1, fan-2" in page, "the rest is there"


def test_a_comparison_is_shown_again_for_a_while_and_keeps_no_other_federation_waiting(
    server: Server, fans: Federation, ada: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released, made = threading.Event(), threading.Event(), list[int]()

    def slowly(held: list[Contribution], ridge: float) -> Judgement:
        made.append(len(held))
        if len(held) == 3:
            begun.set()
            assert released.wait(60)
        return judge(held, ridge)

    monkeypatch.setattr(federation_page, "judge", slowly)
    monkeypatch.setattr(Comparisons, "SECONDS", 600.0)
    other = server.found(charter(merged=False))
    with guest(server, ADMIN) as bert:
        looking = threading.Thread(target=shown, args=(bert, fans, "federation"))
        looking.start()
        assert begun.wait(60)
        assert "Nobody has contributed yet." in shown(ada, other, "federation")
        released.set()
        looking.join()
    fans.put(Contribution("fan-1", 300, (fan_evidence(normal_rows(1, 300)),)))
    assert "Compared just now" in shown(ada, fans, "federation")
    assert made == [3, 0], "the contribution will be there soon enough"


def test_a_picture_has_a_dot_for_each_device_and_room_for_all() -> None:
    rng = np.random.default_rng(0)
    groups = {n: [f"d{n}-{k}" for k in range(int(rng.integers(1, 90)))] for n in range(12)}
    picture = GroupPicture.of({**groups, 12: []})
    assert len(picture.circles) == 12
    for circle in picture.circles:
        assert len(circle.dots) == len(groups[circle.number])
        assert circle.x - circle.radius >= 0
        assert circle.x + circle.radius <= GroupPicture.width
        assert circle.y + circle.radius <= picture.height
        for x, y in circle.dots:
            assert np.hypot(x - circle.x, y - circle.y) + 5 <= circle.radius
    for one in picture.circles:
        for other in picture.circles:
            far = np.hypot(one.x - other.x, one.y - other.y)
            assert one is other or far >= one.radius + other.radius


def test_of_a_thousand_groups_the_largest_are_drawn_and_each_has_room_for_its_name() -> None:
    groups = {n: [f"d{n}-{k}" for k in range(1 + (n == 777))] for n in range(1000)}
    picture = GroupPicture.of(groups)
    assert (picture.circles[0].number, picture.all_groups) == (777, 1000)
    assert len(picture.circles) == 100
    # "group 1000" is 70 wide.
    assert all(35 <= circle.x <= GroupPicture.width - 35 for circle in picture.circles)
    places = {(circle.x, circle.y) for circle in picture.circles[1:]}
    assert all(abs(x - z) >= 70 for x, y in places for z, other in places if y == other and x != z)


def test_a_new_token_is_shown_once_and_lets_a_device_join(fans: Federation, ada: Guest) -> None:
    path = f"/ui/{fans.charter.name}/federation"
    assert "elm-join-" not in ada.get(path).text
    answer = ada.post(path, {"csrf": ada.csrf, "do": "token"})
    command = unescape(re.findall(r"<code>([^<]* device run [^<]*)</code>", answer.text)[0])
    assert command.endswith(f" --verdicts '' --exchange {fans.server.base}/{fans.charter.name}")
    assert "--ca" not in answer.text, "this server has no certificate"
    token = command.split()[0].removeprefix("ELMGROVE_DEVICE_TOKEN=")
    assert "elm-join-" not in ada.get(path).text
    old = fans.ask("POST", "/devices", fans.token, json={"name": "fan-8"})
    assert old.status_code == 401
    assert fans.ask("GET", "/entries", fans.keys["fan-1"]).status_code == 200, "keys stay valid"
    new = fans.ask("POST", "/devices", token, json={"name": "fan-8"})
    assert new.status_code == 201, new.text


def test_where_some_names_may_join_the_page_and_the_refusal_say_which(
    server: Server, ada: Guest
) -> None:
    made = server.found(charter(members=("fan-*", "pump")))
    path = f"/ui/{made.charter.name}/federation"
    empty = ada.get(f"/ui/{made.charter.name}/").text
    token = ada.post(path, {"csrf": ada.csrf, "do": "token"}).text
    for page in (empty, token):
        assert "--name fan-NAME --state fan-NAME.elm" in page
        assert "Names that may join: fan-*, pump." in page


def test_with_tls_the_page_says_what_a_certificate_of_ones_own_needs(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    with serving(store, proxies="127.0.0.1") as server, guest(server, ADMIN) as ada:
        path = f"/ui/{server.found(charter()).charter.name}/"
        session = f"__Host-elmgrove={ada.http.cookies['elmgrove']}"
        tls = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "10.1.1.1", "Cookie": session}
        page = ada.get(path, **tls).text
        assert "--exchange https://" in page
        assert "Add <code>--ca server.pem</code> where the certificate is your own." in page
        assert "--ca" not in ada.get(path).text


def test_the_audit_counts_contributions_and_tells_refusals_with_reasons(
    fans: Federation, ada: Guest
) -> None:
    refused = fans.put_blob("fan-1", b"nothing of the kind")
    assert refused.status_code == 400
    page = shown(ada, fans, "audit")
    assert "3 contributions in this time" in page
    assert "device fan-1" in page
    assert refused.json()["detail"][:60] in page
    assert "published" in page
    older = shown(ada, fans, "audit?before=2")
    assert "made" in older
    assert "published device" not in older


def test_the_audit_keeps_to_its_range_of_time(fans: Federation, ada: Guest) -> None:
    fans.put_blob("fan-1", b"nothing of the kind")
    now = time.time()
    past = shown(ada, fans, f"audit?from={iso(now - 7200)}&to={iso(now - 3600)}")
    assert "0 contributions in this time" in past
    assert "Nothing was refused in this time" in past
    assert "There are no records of this time." in past
    long = shown(ada, fans, "audit?from=now-60d&to=now")
    assert "Contributions are counted in at most 31 days" in long
    assert "published" in long


@pytest.mark.parametrize("query", ["before=x", "before=-1", "before=" + "9" * 30, "from=yesterday"])
def test_a_page_of_the_audit_that_can_not_be_is_refused(
    fans: Federation, ada: Guest, query: str
) -> None:
    assert ada.get(f"/ui/{fans.charter.name}/audit?{query}").status_code == 400
