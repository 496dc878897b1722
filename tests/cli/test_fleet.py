"""``elmgrove fleet``: all devices side by side, by files, folder and server."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmgrove.exchange.folder import FolderExchange
from elmgrove.federation.contribution import Contribution, Departure
from elmgrove.federation.groups import group
from elmgrove.federation.selection import judge
from elmgrove.storage.disk import save
from support.agents import address
from support.commands import Elmgrove, one_clear_line
from support.factories import cloud, distance_contribution, normal_rows
from support.fans import fan_rows, write_fan_rows
from support.serving import ADMIN, Federation, charter, fan_evidence, seeded_contribution

#: The last one's rows are unlike those of the others.
SAID = [
    seeded_contribution("fan-1", 1, 40),
    seeded_contribution("fan-2", 2, 40),
    Contribution("[/odd]:fire:", 40, (fan_evidence(normal_rows(3, 40) * 3 + 9),)),
]
NAMES = [one.origin for one in SAID]


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ELMGROVE_KEY", raising=False)


@pytest.fixture
def files() -> list[str]:
    for number, contribution in enumerate(SAID):
        save(Path(f"{number}.evidence"), contribution)
    return [f"{number}.evidence" for number in range(len(SAID))]


def expect(text: str, ridge: float = 1e-3) -> None:
    """JSON that says what ``judge`` and ``group`` find, whatever the order of the devices."""
    found: list[dict[str, Any]] = json.loads(text)
    order = [NAMES.index(one["device"]) for one in found]
    assert sorted(order) == [0, 1, 2]
    strangeness = judge([SAID[index] for index in order], ridge).strangeness.tolist()
    assert [one["worse"] for one in found] == pytest.approx(strangeness)
    assert max((one["worse"], one["device"]) for one in found)[1] == "[/odd]:fire:"
    made = group(SAID, ridge)
    labels = {model.origin: [label] for model, label in zip(made.models, made.labels, strict=True)}
    assert {one["device"]: one["groups"] for one in found} == labels


def test_files(elmgrove: Elmgrove, files: list[str]) -> None:
    expect(elmgrove("fleet", *files, "--json").out)


def test_a_folder(elmgrove: Elmgrove) -> None:
    made = charter("fans", ridge=0.25)
    FolderExchange.create(Path("shared"), made)
    for contribution in SAID:
        FolderExchange(Path("shared")).publish(contribution)
    FolderExchange(Path("shared")).publish(Departure("gone", 3))
    expect(elmgrove("fleet", "shared", "--json").out, 0.25)


def test_a_server(elmgrove: Elmgrove, federation: Federation) -> None:
    federation.enrol(*NAMES)
    for contribution in SAID:
        assert federation.put(contribution).status_code < 300
    where = ("fleet", address(federation), "--json")
    expect(elmgrove(*where, "--key", ADMIN).out, federation.charter.ridge)
    refused = one_clear_line(elmgrove(*where, "--key", federation.keys["fan-1"]))
    assert "only an administrator may do this" in refused
    assert "fleet" in one_clear_line(elmgrove(*where))
    one_clear_line(elmgrove(*where, "--key", "guessed"))


def test_people_get_a_table(elmgrove: Elmgrove, files: list[str]) -> None:
    both = Contribution(
        "both", 80, (fan_evidence(normal_rows(4, 40)), fan_evidence(normal_rows(5, 40) * 3 + 9))
    )
    save(Path("both.evidence"), both)
    ran = elmgrove("fleet", *files, "both.evidence")
    assert ran.code == 0
    lines = [line.split("│") for line in ran.out.splitlines() if line.startswith("│")]
    cells = {line[1].strip(): [cell.strip() for cell in line[2:7]] for line in lines}
    assert set(cells) == {*NAMES, "both"}, "brackets and colons are no markup"
    assert cells["both"][:2] == ["80", "2"]
    for place, factor in enumerate(judge([*SAID, both], 1e-3).strangeness.tolist()):
        assert cells[[*NAMES, "both"][place]][4] == f"{factor:.3g}"
    made = group([*SAID, both], 1e-3)
    pairs = zip(made.models, made.labels, strict=True)
    expected = [label for one, label in pairs if one.origin == "both"]
    assert cells["both"][3] == ", ".join(map(str, expected))
    assert max(len(line) for line in ran.out.splitlines() if "│" in line) <= 80


def test_why_there_are_as_many_groups(elmgrove: Elmgrove) -> None:
    alike = [distance_contribution(f"alike-{n}", cloud(0, n)) for n in range(2)]
    for contribution in (*alike, distance_contribution("odd", cloud(1, 1))):
        save(Path(f"{contribution.origin}.evidence"), contribution)
    ran = elmgrove("fleet", "alike-0.evidence", "alike-1.evidence", "odd.evidence")
    assert "would be next: the distance would grow by" in ran.out
    assert "No two" not in ran.out
    unlike = elmgrove("fleet", "alike-0.evidence", "odd.evidence").out
    assert "No two patterns are alike. Groups 0 and 1 would be next" in unlike
    alone = elmgrove("fleet", "alike-0.evidence", "alike-1.evidence").out
    assert "All patterns are one group." in alone


def test_what_can_not_be_compared_is_one_clear_line(elmgrove: Elmgrove, files: list[str]) -> None:
    Path("bad.evidence").write_bytes(b"nonsense")
    FolderExchange.create(Path("empty"), charter("fans"))
    for words, complaint in (
        (["empty"], "no device contributed anything"),
        ([*files, "bad.evidence"], "bad.evidence"),
        ([*files, "nothing.evidence"], "give one exchange, or files that all exist"),
        (["nowhere"], "nowhere"),
    ):
        assert complaint in one_clear_line(elmgrove("fleet", *words))


def test_a_device_that_counts_with_less_than_it_states_is_named(
    elmgrove: Elmgrove, files: list[str]
) -> None:
    save(Path("more.evidence"), seeded_contribution("fan-3", 4, 40))
    liar = Contribution("liar", 40, (fan_evidence(normal_rows(5, 40)).weighted(1e6),))
    save(Path("liar.evidence"), liar)
    words = ("fleet", *files, "more.evidence", "liar.evidence")
    shown = {one["device"]: one for one in json.loads(elmgrove(*words, "--json").out)}
    assert shown["fan-1"]["weight"] == 1.0
    assert shown["fan-1"]["why"] is None
    assert shown["liar"]["weight"] * 40e6 == pytest.approx(1e6)
    table = elmgrove(*words).out
    assert "1,000,000 of 40,000,000" in table
    assert "liar counts with less than it states: at most 1,000,000 rows" in table


@pytest.fixture
def fleet(elmgrove: Elmgrove, fan_1: Path) -> list[str]:
    """One device that has seen enough, and one that has just begun."""
    write_fan_rows("few.csv", fan_rows(2, 4))
    elmgrove("learn", "few.csv", "--state", "few.elm", "--like", fan_1)
    for state, file in ((fan_1, "fan-1.evidence"), ("few.elm", "few.evidence")):
        assert elmgrove("share", "--no-guard", "--state", state, "-o", file).code == 0
    return ["fan-1.evidence", "few.evidence"]


def test_it_shows_rows_thresholds_and_what_is_borrowed(
    elmgrove: Elmgrove, fleet: list[str]
) -> None:
    ran = elmgrove("fleet", *fleet, "--json")
    old, young = json.loads(ran.out)
    assert (old["device"], old["rows"], old["patterns"]) == ("fan-1", 300, 1)
    assert old["threshold"] > 0.0
    assert old["borrows"] == {"rows": 0.0, "lenders": 1, "width": 1.0}
    assert (young["rows"], young["threshold"], young["borrows"]["lenders"]) == (4, None, 1)
    assert young["borrows"]["rows"] == pytest.approx(6 * 2.718281828 ** -((4 / 6) ** 2))
    assert 0.0 < young["borrows"]["width"] < 1.0
    shown = elmgrove("fleet", *fleet).out
    for text in ("2 devices", "still learning", "few borrows 4 rows' worth from 1 device"):
        assert text in shown


def test_an_exchange_that_nobody_used_is_said(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("federation", "create", "fans", "--like", fan_1, "--exchange", "shared")
    assert "no device contributed" in one_clear_line(elmgrove("fleet", "shared"))
