"""``elmgrove fleet``: which model explains which rows, and groups, by files, folder and server."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmgrove.exchange.folder import FolderExchange
from elmgrove.federation.contribution import Contribution, Departure
from elmgrove.federation.groups import Grouping, group
from elmgrove.federation.selection import judge
from elmgrove.storage.disk import save
from support.agents import address
from support.commands import Elmgrove, one_clear_line
from support.factories import cloud, distance_contribution, normal_rows
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
    """JSON that says what ``judge`` finds, whatever the order of the devices."""
    found: dict[str, Any] = json.loads(text)
    order = [NAMES.index(name) for name in found["names"]]
    expected = judge([SAID[index] for index in order], ridge)
    assert sorted(order) == [0, 1, 2]
    assert found["error"] == [pytest.approx(line) for line in expected.error.tolist()]
    assert found["strangeness"] == pytest.approx(expected.strangeness.tolist())
    assert max(zip(found["strangeness"], found["names"], strict=True))[1] == "[/odd]:fire:"


def test_files(elmgrove: Elmgrove, files: list[str]) -> None:
    expect(elmgrove("fleet", "judge", *files, "--json").out)
    expect(elmgrove("fleet", "judge", *files, "--json", "--ridge", 0.5).out, 0.5)


def test_a_folder(elmgrove: Elmgrove) -> None:
    made = charter("fans", ridge=0.25)
    FolderExchange.create(Path("shared"), made)
    for contribution in SAID:
        FolderExchange(Path("shared")).publish(contribution)
    FolderExchange(Path("shared")).publish(Departure("gone", 3))
    expect(elmgrove("fleet", "judge", "shared", "--json").out, 0.25)


def test_a_server(elmgrove: Elmgrove, federation: Federation) -> None:
    federation.enrol(*NAMES)
    for contribution in SAID:
        assert federation.put(contribution).status_code < 300
    where = ("fleet", "judge", address(federation), "--json")
    expect(elmgrove(*where, "--key", ADMIN).out)
    refused = one_clear_line(elmgrove(*where, "--key", federation.keys["fan-1"]))
    assert "a key reads sums" in refused
    assert "--shows contributions" in refused
    assert "fleet" in one_clear_line(elmgrove(*where))
    one_clear_line(elmgrove(*where, "--key", "guessed"))


def test_people_get_a_table(elmgrove: Elmgrove, files: list[str]) -> None:
    ran = elmgrove("fleet", "judge", *files)
    assert ran.code == 0
    for name in NAMES:
        assert f"rows of {name}" in ran.out, "brackets and colons are no markup"
    strangeness = judge(SAID, 1e-3).strangeness
    for name, factor in zip(NAMES, strangeness, strict=True):
        line = next(line for line in ran.out.splitlines() if line.startswith(f"│ {name} "))
        assert line.split()[-2] == f"{factor:.3g}"


def test_a_picture(elmgrove: Elmgrove, files: list[str]) -> None:
    ran = elmgrove("fleet", "judge", *files, "--plot", "fleet.png")
    assert (ran.code, "Wrote fleet.png." in ran.err) == (0, True)
    picture = Path("fleet.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.endswith(b"IEND\xaeB`\x82")


def test_what_can_not_be_judged_is_one_clear_line(elmgrove: Elmgrove, files: list[str]) -> None:
    Path("bad.evidence").write_bytes(b"nonsense")
    FolderExchange.create(Path("empty"), charter("fans"))
    for words, complaint in (
        (files[:1], "fewer than two devices contributed"),
        (["empty"], "fewer than two devices contributed"),
        ([*files, "bad.evidence"], "bad.evidence"),
        ([*files, "nothing.evidence"], "give one exchange, or files that all exist"),
        (["nowhere"], "nowhere"),
    ):
        assert complaint in one_clear_line(elmgrove("fleet", "judge", *words))


# Groups


def expect_groups(text: str, expected: Grouping) -> None:
    """JSON that says what ``group`` finds."""
    assert json.loads(text) == json.loads(json.dumps(expected.fields))


def test_groups_of_files(elmgrove: Elmgrove, files: list[str]) -> None:
    words = ("fleet", "groups", *files, "--json")
    expect_groups(elmgrove(*words).out, group(SAID, 1e-3))
    found = elmgrove(*words, "--groups", 2, "--ridge", 0.5).out
    expect_groups(found, group(SAID, 0.5, count=2))
    groups = {model["origin"]: model["group"] for model in json.loads(found)["models"]}
    assert groups["fan-1"] == groups["fan-2"] != groups["[/odd]:fire:"]


def test_groups_of_a_folder_and_a_server(elmgrove: Elmgrove, federation: Federation) -> None:
    FolderExchange.create(Path("shared"), charter("fans", ridge=0.25))
    federation.enrol(*NAMES)
    for contribution in SAID:
        FolderExchange(Path("shared")).publish(contribution)
        assert federation.put(contribution).status_code < 300
    expect_groups(elmgrove("fleet", "groups", "shared", "--json").out, group(SAID, 0.25))
    where = ("fleet", "groups", address(federation), "--json", "--key", ADMIN)
    told = elmgrove(*where, "--groups", 2).out
    expect_groups(told, group(SAID, federation.charter.ridge, count=2))
    answer = federation.ask("GET", "/groups", ADMIN, params={"groups": 2}).json()
    assert answer == {"revision": 3, "since": 3, **json.loads(told)}, "the server says the same"


def test_a_servers_standing_groups_and_new_ones(elmgrove: Elmgrove, federation: Federation) -> None:
    federation.enrol(*NAMES)
    assert federation.put(SAID[0]).status_code < 300
    where = ("fleet", "groups", address(federation), "--key", ADMIN)
    assert json.loads(elmgrove(*where, "--json").out)["since"] == 1
    for contribution in SAID[1:]:
        assert federation.put(contribution).status_code < 300
    told = json.loads(elmgrove(*where, "--json").out)
    assert told == federation.ask("GET", "/groups", ADMIN).json()
    assert (told["revision"], told["since"]) == (3, 1)
    expect_groups(
        elmgrove(*where, "--regroup", "--json").out, group(SAID, federation.charter.ridge)
    )
    ran = elmgrove(*where, "--plot", "g.png")
    assert "The server has kept them since revision 1; --regroup says why." in ran.out
    lines = [line.split("│") for line in ran.out.splitlines() if line.startswith("│")]
    shown = {line[2].strip(): int(line[1]) for line in lines}
    assert len(lines) == told["groups"]
    for model in told["models"]:
        assert any(model["origin"] in names and n == model["group"] for names, n in shown.items())
    assert Path("g.png").read_bytes().endswith(b"IEND\xaeB`\x82")
    assert "would be next" in elmgrove(*where, "--regroup").out


@pytest.fixture
def two_patterns() -> list[str]:
    """The files, and one of a device with two patterns, one in each group."""
    parts = fan_evidence(normal_rows(4, 40)), fan_evidence(normal_rows(5, 40) * 3 + 9)
    both = Contribution("both", 80, parts)
    for number, contribution in enumerate([*SAID, both]):
        save(Path(f"{number}.evidence"), contribution)
    return [f"{number}.evidence" for number in range(4)]


def test_people_see_who_is_grouped_and_why(elmgrove: Elmgrove, two_patterns: list[str]) -> None:
    ran = elmgrove("fleet", "groups", *two_patterns, "--groups", 2)
    assert ran.code == 0
    lines = [line.split("│") for line in ran.out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line[1:4]] for line in lines] == [
        ["0", "[/odd]:fire: (1), both (2)", "80"],
        ["1", "both (1), fan-1 (1), fan-2 (1)", "120"],
    ]
    assert all(line[4].strip().endswith("%") for line in lines)
    assert "Groups 0 and 1 would be next: the loss would grow by" in ran.out
    assert "loss grew by" in ran.out
    ran = elmgrove("fleet", "groups", *two_patterns, "--groups", 1)
    assert "All patterns are one group." in ran.out


def test_by_distance_the_distance_grows_and_nobody_alike_is_said(elmgrove: Elmgrove) -> None:
    alike = [distance_contribution(f"alike-{n}", cloud(0, n)) for n in range(2)]
    for contribution in (*alike, distance_contribution("odd", cloud(1, 1))):
        save(Path(f"{contribution.origin}.evidence"), contribution)
    ran = elmgrove("fleet", "groups", "alike-0.evidence", "alike-1.evidence", "odd.evidence")
    assert "distance grew by" in ran.out
    assert "would be next: the distance would grow by" in ran.out
    assert "No two" not in ran.out
    unlike = ("fleet", "groups", "alike-0.evidence", "odd.evidence")
    assert "No two patterns are alike. Groups 0 and 1 would be next" in elmgrove(*unlike).out
    assert "No two" not in elmgrove(*unlike, "--groups", 2).out


def test_a_picture_of_groups(elmgrove: Elmgrove, two_patterns: list[str]) -> None:
    ran = elmgrove("fleet", "groups", *two_patterns, "--plot", "g.png")
    assert (ran.code, "Wrote g.png." in ran.err) == (0, True)
    assert Path("g.png").read_bytes().endswith(b"IEND\xaeB`\x82")


def test_what_can_not_be_grouped_is_one_clear_line(elmgrove: Elmgrove, files: list[str]) -> None:
    FolderExchange.create(Path("empty"), charter("fans"))
    for words, complaint in (
        (["empty"], "no device contributed anything"),
        ([*files, "--groups", 4], "3 patterns with rows can't make 4 groups"),
    ):
        assert complaint in one_clear_line(elmgrove("fleet", "groups", *words))


def test_a_device_that_counts_with_less_than_it_states_is_named(
    elmgrove: Elmgrove, files: list[str]
) -> None:
    save(Path("more.evidence"), seeded_contribution("fan-3", 4, 40))
    liar = Contribution("liar", 40, (fan_evidence(normal_rows(5, 40)).weighted(1e6),))
    save(Path("liar.evidence"), liar)
    words = ("fleet", "show", *files, "more.evidence", "liar.evidence")
    shown = {one["device"]: one for one in json.loads(elmgrove(*words, "--json").out)}
    assert shown["fan-1"]["weight"] == 1.0
    assert shown["fan-1"]["why"] is None
    assert shown["liar"]["weight"] * 40e6 <= 1000
    table = elmgrove(*words).out
    assert "305 of 40,000,000" in table
    assert "liar counts with less than it states: at most 512 rows" in table
