"""The commands, as people use them: two of them, with a USB stick."""

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector, Evidence, HiddenLayer, __version__
from elmgrove.federation import Contribution, Member
from elmgrove.storage.disk import load, save
from support.commands import Elmgrove, Ran, one_clear_line
from support.places import GOLDEN

COMMAND = Path(sys.executable).parent / "elmgrove"
COMMANDS = ["learn", "score", "share", "merge", "forget", "inspect", "demo", "federate", "serve"]
COMMANDS += ["federation create", "fleet judge", "device run", "device pull", "device leave"]
NAMES = ["heat", "load [%]", "speed [m/s]", "current", "hum", "draft"]
MIXING = np.random.default_rng(0).normal(size=(2, 6))


def rows(seed: int, count: int, shift: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(count, 2)) @ MIXING + 0.1 * rng.normal(size=(count, 6))
    made[:, 0] += shift
    return made


def write(path: str, data: np.ndarray, names: list[str] | None = NAMES) -> str:
    lines = [",".join(names)] if names else []
    lines += [",".join(map(repr, row)) for row in data.tolist()]
    Path(path).write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def fan_1(elmgrove: Elmgrove) -> Path:
    """A device that learned 300 rows; a file of its evidence stands beside it."""
    write("normal-1.csv", rows(1, 300))
    assert elmgrove("learn", "normal-1.csv", "--state", "fan-1.elm").code == 0
    assert elmgrove("share", "--state", "fan-1.elm", "-o", "fan-1.evidence").code == 0
    return Path("fan-1.elm")


@pytest.fixture
def fan_2(elmgrove: Elmgrove, fan_1: Path) -> Path:
    """A device that learned other rows in the way of the first one."""
    write("normal-2.csv", rows(2, 200))
    like = ["--like", "fan-1.evidence"]
    assert elmgrove("learn", "normal-2.csv", "--state", "fan-2.elm", *like).code == 0
    return Path("fan-2.elm")


# Learning and scoring


def test_learn_says_what_it_did_and_goes_on_from_there(elmgrove: Elmgrove) -> None:
    write("a.csv", rows(1, 60))
    first = elmgrove("learn", "a.csv", "--state", "fan.elm")
    assert (first.code, first.out) == (0, "")
    assert "fan: learned 60 rows, 60 in all." in first.err
    assert "no alarms before 99 rows" in first.err
    write("b.csv", rows(2, 90))
    second = elmgrove("learn", "b.csv", "-s", "fan.elm")
    assert "fan: learned 90 rows, 150 in all." in second.err
    assert "Watching: scores above" in second.err
    detector = load(Path("fan.elm"), Member.from_bytes).detector
    at_once = Detector(detector.basis.layer, scaling=detector.basis.scaling, features=NAMES)
    at_once.learn_many(np.vstack([rows(1, 60), rows(2, 90)]))
    assert detector.model.beta == pytest.approx(at_once.model.beta, rel=1e-9)


def test_scores_are_the_same_in_all_formats(elmgrove: Elmgrove, fan_1: Path) -> None:
    data = np.vstack([rows(5, 20), rows(6, 3, shift=9.0)])
    write("new.csv", data)
    detector = load(fan_1, Member.from_bytes).detector
    expected, limit = detector.score_many(data), detector.threshold
    before = fan_1.read_bytes()

    ran = elmgrove("score", "new.csv", "--state", fan_1, "--format", "csv", "--explain", 2)
    assert ran.code == 0
    lines = list(csv.DictReader(io.StringIO(ran.out)))
    assert [int(line["line"]) for line in lines] == list(range(2, 25))
    assert [float(line["score"]) for line in lines] == pytest.approx(expected)
    assert {float(line["threshold"]) for line in lines} == {limit}
    assert [line["anomalous"] == "1" for line in lines] == (expected > limit).tolist()
    assert lines[-1]["causes"].startswith("heat=")

    ran = elmgrove("score", "new.csv", "--state", fan_1, "--format", "jsonl", "--explain", 2)
    objects = [json.loads(line) for line in ran.out.splitlines()]
    assert [o["line"] for o in objects] == list(range(2, 25))
    assert [o["score"] for o in objects] == pytest.approx(expected)
    assert [o["anomalous"] for o in objects] == (expected > limit).tolist()
    assert {len(o["causes"]) for o in objects} == {2}
    cause = objects[-1]["causes"][0]
    assert cause["feature"] == "heat"
    assert cause["seen"] == pytest.approx(data[-1, 0])

    ran = elmgrove("score", "new.csv", "--state", fan_1, "--worst", 4)
    worst = [line for line in ran.out.splitlines() if "heat" in line]
    assert "The 4 strangest rows" in ran.out
    assert len(worst) >= 3
    assert f"{expected.max():.4g}" in worst[0]
    assert f"{int((expected > limit).sum())} of 23 rows are anomalous." in ran.err
    assert fan_1.read_bytes() == before, "scoring learns nothing"


def test_check_answers_by_its_exit_code(elmgrove: Elmgrove, fan_1: Path) -> None:
    write("odd.csv", rows(6, 3, shift=9.0))
    write("quiet.csv", np.zeros((3, 6)))
    assert elmgrove("score", "odd.csv", "--state", fan_1).code == 0
    assert elmgrove("score", "odd.csv", "--state", fan_1, "--check").code == 3
    assert elmgrove("score", "quiet.csv", "--state", fan_1, "--check").code == 0


def test_a_state_that_is_still_learning_flags_nothing(elmgrove: Elmgrove) -> None:
    write("few.csv", rows(1, 20))
    elmgrove("learn", "few.csv", "--state", "fan.elm")
    write("odd.csv", rows(6, 3, shift=99.0))
    ran = elmgrove("score", "odd.csv", "--state", "fan.elm", "--check", "--format", "jsonl")
    assert ran.code == 0
    assert "still learning" in ran.err
    assert {json.loads(line)["threshold"] for line in ran.out.splitlines()} == {None}


def test_the_gate_leaves_strange_rows_out(elmgrove: Elmgrove, fan_1: Path) -> None:
    shutil.copy(fan_1, "trusting.elm")
    write("mixed.csv", np.vstack([np.zeros((10, 6)), rows(6, 5, shift=9.0)]))
    ran = elmgrove("learn", "mixed.csv", "--state", fan_1, "--gate")
    assert "learned 10 rows (5 strange ones left out), 310 in all" in ran.err
    assert len(load(fan_1, Member.from_bytes).detector.quarantine) == 5
    assert "learned 15 rows, 315 in all" in elmgrove("learn", "mixed.csv", "-s", "trusting.elm").err


def test_bad_rows_are_left_out_if_that_is_wanted(elmgrove: Elmgrove, fan_1: Path) -> None:
    text = Path("normal-1.csv").read_text().splitlines()
    text[3], text[7] = "1,2,three,4,5,6", "1,2"
    Path("holes.csv").write_text("\n".join(text))
    ran = elmgrove("learn", "holes.csv", "--state", "holes.elm", "--skip-bad")
    assert "Left out 2 bad rows. The first: holes.csv, line 4, column 3 ('speed [m/s]')" in ran.err
    assert "learned 298 rows" in ran.err
    ran = elmgrove("score", "holes.csv", "-s", fan_1, "--skip-bad", "--format", "csv")
    assert len(ran.out.splitlines()) == 299
    np.save("holes.npy", np.vstack([rows(1, 5), np.full((1, 6), np.nan)]))
    ran = elmgrove("score", "holes.npy", "-s", fan_1, "--skip-bad", "--format", "csv")
    assert [line.partition(",")[0] for line in ran.out.splitlines()] == ["line", *"01234"]


def test_columns_are_found_by_name(elmgrove: Elmgrove, fan_1: Path) -> None:
    data = rows(5, 10)
    write("new.csv", data)
    order = [3, 0, 5, 1, 4, 2]
    more = np.hstack([data[:, order], data[:, :1]])
    write("moved.csv", more, [NAMES[i] for i in order] + ["unheard of"])
    score = ("--state", fan_1, "--format", "csv")
    moved = elmgrove("score", "moved.csv", *score)
    assert moved.code == 0
    assert moved.out == elmgrove("score", "new.csv", *score).out


def test_columns_can_be_dropped_for_good(elmgrove: Elmgrove) -> None:
    data, names = rows(1, 120), ["time", *NAMES[1:]]
    write("timed.csv", data, names)
    ran = elmgrove("learn", "timed.csv", "-s", "fan.elm", "--drop", "time", "--drop", "hum")
    assert ran.code == 0
    kept = load(Path("fan.elm"), Member.from_bytes).detector.basis.features
    assert kept == ("load [%]", "speed [m/s]", "current", "draft")
    assert elmgrove("score", "timed.csv", "-s", "fan.elm").code == 0


def test_settings_become_the_state(elmgrove: Elmgrove) -> None:
    write("a.csv", rows(1, 150))
    options = {
        "--name": "Lüfter 7",
        "--scaling": "minmax",
        "--units": 4,
        "--activation": "tanh",
        "--weights": "normal",
        "--seed": 12,
        "--ridge": 0.5,
        "--forgetting": 0.999,
        "--sigma": 4,
    }
    given = [part for option in options.items() for part in option]
    assert elmgrove("learn", "a.csv", "--state", "x.elm", *given).code == 0
    member = load(Path("x.elm"), Member.from_bytes)
    assert member.name == "Lüfter 7"
    assert member.detector.basis.layer == HiddenLayer(6, 4, "tanh", "normal", 12)
    assert member.detector.basis.scaling.kind == "minmax"
    assert (member.detector.model.ridge, member.detector.model.forgetting) == (0.5, 0.999)
    assert member.detector.policy.k == 4


# Two people with a USB stick


def test_the_whole_story(elmgrove: Elmgrove, fan_1: Path, fan_2: Path) -> None:
    score = ("score", "normal-1.csv", "--state", fan_2, "--format", "csv")
    alone, scored_alone = fan_2.read_bytes(), elmgrove(*score).out

    ran = elmgrove("merge", "--state", fan_2, "fan-1.evidence")
    assert ran.code == 0
    assert "fan-1, 300 rows learned: merged." in ran.err
    assert "fan-2 now rests on its own rows and those of fan-1." in ran.err
    merged, scored_merged = fan_2.read_bytes(), elmgrove(*score).out
    assert scored_merged != scored_alone

    # As if all rows had been learned in one place.
    detector = load(fan_2, Member.from_bytes).detector
    central = Detector(detector.basis.layer, scaling=detector.basis.scaling, features=NAMES)
    central.learn_many(np.vstack([rows(1, 300), rows(2, 200)]))
    lines = csv.DictReader(io.StringIO(scored_merged))
    scores = [float(line["score"]) for line in lines]
    assert scores == pytest.approx(central.score_many(rows(1, 300)), rel=1e-9)

    # Again: nothing.
    ran = elmgrove("merge", "--state", fan_2, "fan-1.evidence")
    assert (ran.code, "nothing new" in ran.err) == (0, True)
    assert fan_2.read_bytes() == merged

    # What is shared is one's own. (From a copy: a state remembers what it gave away.)
    shutil.copy(fan_2, "copy.elm")
    elmgrove("share", "--state", "copy.elm")
    shared = load(Path("fan-2.evidence"), Contribution.from_bytes)
    assert (shared.origin, shared.epoch, shared.evidence.count) == ("fan-2", 200, 200)

    # Newer takes the place of older, whether the older was there or not.
    write("more-1.csv", rows(3, 50))
    elmgrove("learn", "more-1.csv", "--state", fan_1)
    elmgrove("share", "--state", fan_1, "-o", "newer.evidence")
    Path("late.elm").write_bytes(alone)
    assert "350 rows learned: merged" in elmgrove("merge", "-s", fan_2, "newer.evidence").err
    elmgrove("merge", "--state", "late.elm", "newer.evidence")
    assert fan_2.read_bytes() == Path("late.elm").read_bytes() != merged
    elmgrove("merge", "--state", fan_2, "fan-1.evidence")
    assert fan_2.read_bytes() == Path("late.elm").read_bytes(), "older does not replace newer"

    # Forgotten: as if it had never been there.
    ran = elmgrove("forget", "--state", fan_2, "--origin", "fan-1")
    assert (ran.code, "no longer holds anything of fan-1" in ran.err) == (0, True)
    assert fan_2.read_bytes() == alone
    assert elmgrove(*score).out == scored_alone
    assert "heard from nobody" in one_clear_line(
        elmgrove("forget", "--state", fan_2, "--origin", "fan-1")
    )


def test_several_files_are_merged_all_or_none(elmgrove: Elmgrove, fan_1: Path, fan_2: Path) -> None:
    write("normal-3.csv", rows(3, 150))
    elmgrove("learn", "normal-3.csv", "--state", "fan-3.elm", "--like", fan_1)
    elmgrove("share", "--state", "fan-3.elm")
    Path("bad.evidence").write_bytes(b"nonsense")
    before = fan_2.read_bytes()
    files = ["fan-1.evidence", "fan-3.evidence"]
    assert "bad.evidence" in one_clear_line(elmgrove("merge", "-s", fan_2, *files, "bad.evidence"))
    assert fan_2.read_bytes() == before
    assert "those of fan-1, fan-3" in elmgrove("merge", "-s", fan_2, *files).err
    one_by_one = Path("other.elm")
    one_by_one.write_bytes(before)
    for file in reversed(files):
        elmgrove("merge", "-s", one_by_one, file)
    assert fan_2.read_bytes() == one_by_one.read_bytes()


def test_like_works_with_a_state_and_with_evidence(
    elmgrove: Elmgrove, fan_1: Path, fan_2: Path
) -> None:
    assert (
        elmgrove("learn", "normal-2.csv", "-s", "x.elm", "--like", fan_1, "--rate", 0.05).code == 0
    )
    made = load(Path("x.elm"), Member.from_bytes).detector
    assert (
        made.basis
        == load(fan_2, Member.from_bytes).detector.basis
        == load(fan_1, Member.from_bytes).detector.basis
    )
    assert made.policy.rate == 0.05


# The upload guard


def test_too_few_rows_are_not_shared(elmgrove: Elmgrove, tmp_path: Path) -> None:
    """With 3 units and 6 columns, 3 + 3 · 4 / (2 · 6) = 4 rows are the least."""
    write("few.csv", rows(1, 3))
    elmgrove("learn", "few.csv", "--state", "fan.elm", "--units", 3)
    before = Path("fan.elm").read_bytes()
    assert "Error: 1 more rows are needed" in one_clear_line(elmgrove("share", "-s", "fan.elm"))
    assert Path("fan.elm").read_bytes() == before
    assert not Path("fan.evidence").exists()

    ran = elmgrove("share", "--state", "fan.elm", "--no-guard")
    assert (ran.code, "fan, 3 rows." in ran.err) == (0, True)
    assert load(Path("fan.evidence"), Contribution.from_bytes).evidence.count == 3


def test_few_new_rows_wait_for_more(elmgrove: Elmgrove) -> None:
    write("a.csv", rows(1, 20))
    elmgrove("learn", "a.csv", "--state", "fan.elm", "--units", 3)
    assert elmgrove("share", "--state", "fan.elm", "-o", "first.evidence", "--guard").code == 0
    write("b.csv", rows(2, 3))
    elmgrove("learn", "b.csv", "--state", "fan.elm")
    ran = elmgrove("share", "--state", "fan.elm", "-o", "second.evidence")
    assert ran.code == 0
    assert "fan, 20 rows. 1 more rows are needed before the newer ones follow." in ran.err
    assert Path("second.evidence").read_bytes() == Path("first.evidence").read_bytes()

    write("c.csv", rows(3, 1))
    elmgrove("learn", "c.csv", "--state", "fan.elm")
    ran = elmgrove("share", "--state", "fan.elm", "-o", "third.evidence")
    assert "fan, 24 rows.\n" in ran.err
    assert load(Path("third.evidence"), Contribution.from_bytes).epoch == 24


# Inspecting


def test_inspect_shows_a_state(elmgrove: Elmgrove, fan_2: Path) -> None:
    elmgrove("merge", "--state", fan_2, "fan-1.evidence")
    facts = json.loads(elmgrove("inspect", fan_2, "--json").out)
    assert facts["holds"] == "a device's state"
    assert (facts["name"], facts["rows learned"]) == ("fan-2", 200)
    assert facts["heard from"] == {"fan-1": 300}
    assert facts["features"] == NAMES
    assert facts["layer"]["inputs"] == facts["columns"] == 6
    shown = elmgrove("inspect", fan_2)
    assert shown.code == 0
    for text in ("fan-2.elm", "watching", '{"fan-1": 300}', "speed [m/s]", facts["fingerprint"]):
        assert text in shown.out


def test_inspect_shows_evidence(elmgrove: Elmgrove, fan_1: Path) -> None:
    facts = json.loads(elmgrove("inspect", "fan-1.evidence", "--json").out)
    assert facts["holds"] == "evidence to give away"
    assert (facts["origin"], facts["rows learned"], facts["admissible"]) == ("fan-1", 300, "yes")
    shown = elmgrove("inspect", "fan-1.evidence").out
    assert "evidence to give away" in shown
    state = json.loads(elmgrove("inspect", fan_1, "--json").out)
    assert facts["fingerprint"] == state["fingerprint"]


def test_inspect_shows_compact_files(elmgrove: Elmgrove) -> None:
    golden = GOLDEN
    model = json.loads(elmgrove("inspect", golden / "model-1.compact", "--json").out)
    assert model["holds"] == "a model of Fed-ELMS in 8 bits"
    assert (model["rows learned"], model["outputs"], model["columns"]) == (40.0, 3, 6)
    classifier = json.loads(elmgrove("inspect", golden / "classifier-1.compact", "--json").out)
    assert classifier["holds"] == "a classifier in whole numbers"
    assert (classifier["classes"], classifier["inputs within"]) == (3, "±2")


def test_inspect_says_why_evidence_would_be_refused(elmgrove: Elmgrove, fan_1: Path) -> None:
    honest = load(Path("fan-1.evidence"), Contribution.from_bytes).evidence
    lie = Evidence(honest.basis, honest.U, honest.V, 0.0, honest.count)
    save(Path("lie.evidence"), Contribution("liar", 300, (lie,)))
    assert "energy" in json.loads(elmgrove("inspect", "lie.evidence", "--json").out)["admissible"]
    before = fan_1.read_bytes()
    assert "'liar'" in one_clear_line(elmgrove("merge", "-s", fan_1, "lie.evidence"))
    assert fan_1.read_bytes() == before


# Names are printed as they are


def test_brackets_and_colons_in_names_are_no_markup(elmgrove: Elmgrove) -> None:
    names = ["p [bar]", "[/x]", ":fire:", "[bold]", "v [m/s]", "f"]
    write("a.csv", rows(1, 150), names)
    ran = elmgrove("learn", "a.csv", "--state", "a[b].elm", "--name", "[/red]:fire:")
    assert (ran.code, "[/red]:fire:: learned 150 rows" in ran.err) == (0, True)
    assert "a[b].elm" in ran.err
    table = elmgrove("score", "a.csv", "--state", "a[b].elm", "--worst", 5, "--explain", 6).out
    shown = elmgrove("inspect", "a[b].elm").out
    for name in names:
        assert name in table
        assert name in shown
    ran = elmgrove("share", "--state", "a[b].elm", "-o", "x.evidence")
    assert (ran.code, "[/red]:fire:" in ran.err) == (0, True)
    elmgrove("learn", "a.csv", "--state", "b.elm", "--like", "x.evidence")
    ran = elmgrove("merge", "--state", "b.elm", "x.evidence")
    assert (ran.code, "[/red]:fire:, 150 rows learned: merged" in ran.err) == (0, True)
    assert "[bold]" in one_clear_line(elmgrove("forget", "-s", "b.elm", "--origin", "[bold]"))


# Errors: one clear line, and nothing is changed


def bad_files() -> None:
    state = Path("fan-1.elm").read_bytes()
    Path("half.elm").write_bytes(state[: len(state) // 2])
    altered = bytearray(state)
    altered[-9] ^= 1
    Path("altered.elm").write_bytes(altered)
    Path("half.evidence").write_bytes(Path("fan-1.evidence").read_bytes()[:-1])
    Path("empty.csv").write_text("")
    write("header.csv", rows(1, 0))
    write("text.csv", rows(1, 3))
    with Path("text.csv").open("a") as file:
        file.write("1,2,hot,4,5,6\n")
    Path("latin.csv").write_bytes("Wärme,b\n1,2\n".encode("latin-1"))
    write("other-names.csv", rows(1, 3), [*NAMES[:-1], "Zug"])
    write("narrow.csv", rows(1, 3)[:, :4], None)
    np.save("narrow.npy", rows(1, 3)[:, :4])
    np.save("flat.npy", np.ones(6))
    elsewhere = Member("elsewhere", Detector(HiddenLayer(6, 3, seed=99), features=NAMES))
    elsewhere.detector.learn_many(rows(1, 30))
    save(Path("elsewhere.evidence"), elsewhere.contribution())


ERRORS = {
    "learn text.csv -s fan-1.elm": "text.csv, line 5, column 3 ('speed [m/s]'): 'hot' is not",
    "learn text.csv -s new.elm": "text.csv, line 5, column 3 ('speed [m/s]'): 'hot' is not",
    "learn text.csv -s fan-1.elm --gate": "text.csv, line 5, column 3",
    "score text.csv -s fan-1.elm": "text.csv, line 5, column 3",
    "learn latin.csv -s new.elm": "latin.csv: not text in UTF-8",
    "learn other-names.csv -s fan-1.elm": "other-names.csv: no column 'draft' among ['heat'",
    "learn narrow.csv -s fan-1.elm": "narrow.csv: 4 columns, where 6 were learned",
    "learn narrow.npy -s new.elm --like fan-1.elm": "narrow.npy: 4 columns",
    "score narrow.npy -s fan-1.elm": "narrow.npy: 4 columns, where 6 were learned",
    "learn flat.npy -s new.elm": "flat.npy: expected rows × columns",
    "learn empty.csv -s new.elm": "empty.csv: no rows to learn from",
    "learn header.csv -s new.elm": "header.csv: no rows to learn from",
    "score empty.csv -s fan-1.elm": "empty.csv: 0 columns, where 6 were learned",
    "score normal-1.csv -s half.elm": "half.elm: truncated or damaged",
    "score normal-1.csv -s altered.elm": "altered.elm: altered since it was written",
    "score normal-1.csv -s normal-1.csv": "normal-1.csv: not a file of Elmgrove's",
    "score normal-1.csv -s fan-1.evidence": "fan-1.evidence: this holds 'elmgrove.evidence'",
    "learn normal-1.csv -s half.elm": "half.elm: truncated or damaged",
    "learn normal-1.csv -s new.elm --like half.elm": "half.elm: truncated or damaged",
    "learn normal-1.csv -s new.elm --like text.csv": "text.csv: not a file of Elmgrove's",
    "share -s altered.elm": "altered.elm: altered since it was written",
    "share -s fan-1.elm -o fan-1.elm": "fan-1.elm is the state itself",
    "share -s fan-1.elm -o nowhere/x.evidence": "nowhere/x.evidence: No such file or directory",
    "inspect half.evidence": "half.evidence: truncated or damaged",
    "inspect text.csv": "text.csv: not a file of Elmgrove's",
    "merge -s fan-1.elm half.evidence": "half.evidence: truncated or damaged",
    "merge -s fan-1.elm fan-1.elm": "fan-1.elm: this holds 'elmgrove.state'",
    "merge -s fan-1.elm fan-1.evidence": "'fan-1' can't merge its own evidence",
    "merge -s fan-1.elm elsewhere.evidence": "\n  layer.seed: 0 here, 99 there\n",
    "forget -s fan-1.elm --origin nobody": "fan-1 never merged 'nobody'",
    "learn normal-1.csv -s fan-1.elm --units 3": "--units: fan-1.elm exists and keeps",
    "learn normal-1.csv -s fan-1.elm --name x --drop hum": "--name, --drop: fan-1.elm exists",
    "learn normal-1.csv -s fan-1.elm --like fan-1.elm": "--like: fan-1.elm exists and keeps",
    "learn normal-1.csv -s new.elm --like fan-1.elm --seed 3": "--seed: --like takes this from",
    "learn normal-1.csv -s new.elm --scaling log": "scaling must be one of none, minmax, standard",
    "learn normal-1.csv -s new.elm --activation x": "activation must be one of identity,",
    "learn normal-1.csv -s new.elm --weights x": "weights must be one of uniform,",
    "learn normal-1.csv -s new.elm --rate 2": "rate must lie between 0 and 1",
    "learn normal-1.csv -s new.elm --forgetting 0": "forgetting must be above 0",
    "learn normal-1.csv -s new.elm --threshold 1 --sigma 2": "choose one",
    "learn normal-1.csv -s new.elm --drop nothing": "normal-1.csv: no column 'nothing' among",
    "learn normal-1.csv -s nowhere/new.elm": "nowhere/new.elm: No such file or directory",
    "learn normal-1.csv -s new.elm --ridge 0 --units 12": "singular",
    "learn normal-1.csv -s new.elm --rate 1e-15": "allocate",
}


@pytest.mark.parametrize("line", ERRORS)
@pytest.mark.usefixtures("fan_1")
def test_an_error_is_one_clear_line_and_changes_nothing(elmgrove: Elmgrove, line: str) -> None:
    bad_files()
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert ERRORS[line] in one_clear_line(elmgrove(*line.split()))
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("score nothing.csv -s fan-1.elm", "'nothing.csv' does not exist"),
        ("score normal-1.csv -s nothing.elm", "'nothing.elm' does not exist"),
        ("merge -s fan-1.elm nothing.evidence", "'nothing.evidence' does not exist"),
        ("learn normal-1.csv -s new.elm --like nothing.elm", "'nothing.elm' does not exist"),
        ("learn normal-1.csv -s .", "'.' is a directory"),
        ("inspect .", "'.' is a directory"),
        ("learn normal-1.csv", "--state"),
        ("learn normal-1.csv -s new.elm --units 0", "--units"),
        ("learn normal-1.csv -s new.elm --seed one", "--seed"),
        ("score normal-1.csv -s fan-1.elm --format xml", "xml"),
        ("forget -s fan-1.elm", "--origin"),
        ("teach normal-1.csv", "teach"),
    ],
)
@pytest.mark.usefixtures("fan_1")
def test_wrong_usage_is_told_apart_by_its_exit_code(
    elmgrove: Elmgrove, line: str, complaint: str
) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    ran = elmgrove(*line.split())
    assert ran.code == 2
    assert complaint in ran.err
    assert "Traceback" not in ran.err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(elmgrove: Elmgrove, command: str) -> None:
    ran = elmgrove(*command.split(), "--help")
    assert ran.code == 0
    assert f"Example: elmgrove {command}" in " ".join(ran.out.split())


def test_help_lists_the_commands_and_the_exit_codes(elmgrove: Elmgrove) -> None:
    asked, alone = elmgrove("--help"), elmgrove()
    assert asked.code == 0
    for text in [*(command.split()[0] for command in COMMANDS), "Exit codes: 0 done"]:
        assert text in asked.out
    assert asked.out.split() == (alone.out + alone.err).split()


def test_the_version_is_printed(elmgrove: Elmgrove) -> None:
    assert elmgrove("--version") == Ran(0, f"elmgrove {__version__}\n", "")


# In a process of its own


def run(*command: str | Path) -> Ran:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


@pytest.mark.usefixtures("fan_1")
def test_the_installed_command_does_the_same(elmgrove: Elmgrove) -> None:
    write("odd.csv", rows(6, 3, shift=9.0))
    arguments = ("score", "odd.csv", "--state", "fan-1.elm", "--check", "--format", "csv")
    ran = run(COMMAND, *arguments)
    assert ran == elmgrove(*arguments)
    assert ran.code == 3
    assert "odd.csv" in one_clear_line(run(COMMAND, "inspect", "odd.csv"))


def test_a_reader_that_goes_away_is_no_error_to_shout_about(fan_1: Path) -> None:
    """As in ``elmgrove score … | head -1``."""
    write("many.csv", np.zeros((5_000, 6)))
    command = [COMMAND, "score", "many.csv", "--state", fan_1, "--format", "csv", "--explain", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("line,score")
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_a_full_disk_is_one_clear_line_and_leaves_the_state(fan_1: Path) -> None:
    before = fan_1.read_bytes()
    learn = (COMMAND, "learn", "normal-1.csv", "--state", "fan-1.elm")
    # No file may grow beyond 4 blocks, of 512 bytes or 1024 as the shell has it.
    text = one_clear_line(run("sh", "-c", 'ulimit -f 4 && exec "$@"', "sh", *learn))
    assert "fan-1.elm: File too large" in text
    assert fan_1.read_bytes() == before
    assert not list(Path().glob(".*"))
