"""Keeping a detector: the file it is saved to, and what it shows of itself (newcomer 18)."""

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from elmgrove import Detector, FixedThreshold, PatternRule, Spectrum
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.errors import BadFile, BadInput
from elmgrove.federation.member import Member
from elmgrove.storage.disk import locked, save
from elmgrove.storage.sealed import seal, unseal
from support.commands import Elmgrove
from support.factories import detector_for, member_in
from support.fans import NAMES, fan_rows, write_fan_rows

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture(name="own_folder")
def own_folder_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained_detector(count: int = 600, **settings: Any) -> Detector:
    frame = pd.DataFrame(fan_rows(1, count), columns=list(NAMES))
    return detector_for(frame, **settings)


# The file


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"window": 5, "threshold": FixedThreshold(3.0)},
        {"score": "loss"},
        {"patterns": PatternRule(2), "window": 1},
        {"spectrum": Spectrum(1000.0, 16, 4)},
    ],
    ids=lambda settings: "-".join(settings) or "defaults",
)
def test_a_detector_goes_on_from_its_file_as_if_nothing_had_been(settings: dict[str, Any]) -> None:
    detector = trained_detector(**settings)
    new = fan_rows(2, 80)
    new[40] += 50.0
    detector.observe_many(new[:20])
    detector.save("fan.elm")
    kept = Detector.load(Path("fan.elm"))
    pairs = zip(kept.observe_many(new[20:]), detector.observe_many(new[20:]), strict=True)
    # The running inverse of a loss is computed again, and so is its rounding.
    assert all(one == replace(other, score=one.score) for one, other in pairs)
    assert kept.score_many(new) == pytest.approx(detector.score_many(new), rel=1e-4)
    assert kept.evidence.close_to(detector.evidence)
    assert stat.S_IMODE(Path("fan.elm").stat().st_mode) == 0o600


def test_what_is_saved_here_the_commands_and_the_agent_go_on_with(elmgrove: Elmgrove) -> None:
    detector = trained_detector()
    detector.save("fan.elm")
    member = member_in("fan.elm")
    assert (member.name, member.detector.learned) == ("fan", detector.learned)
    assert Member("fan", detector).to_bytes() == Path("fan.elm").read_bytes()

    new = fan_rows(2, 40)
    new[7] += 9.0
    ran = elmgrove("score", write_fan_rows("new.csv", new), "--state", "fan.elm", "--format", "csv")
    scores = [float(line.split(",")[1]) for line in ran.out.splitlines()[1:]]
    assert scores == pytest.approx(detector.score_many(new), rel=1e-4)
    Agent(Settings(state="fan.elm", source="new.csv", verdicts="")).run()
    verdicts = detector.observe_many(new)
    assert Detector.load("fan.elm").learned == detector.learned
    assert verdicts[7].anomalous


def test_what_the_command_learned_is_a_detector_here(elmgrove: Elmgrove) -> None:
    elmgrove("learn", write_fan_rows("a.csv", fan_rows(1, 600)), "--state", "fan.elm")
    kept = Detector.load("fan.elm")
    assert kept.basis.features == tuple(NAMES)
    # And Python has the command's defaults.
    mine = trained_detector()
    assert kept.basis.fingerprint == mine.basis.fingerprint
    for what in ("gate.policy", "events.rule", "gate.warmup", "patterns", "model.forgetting"):
        one, other = kept, mine
        for name in what.split("."):
            one, other = getattr(one, name), getattr(other, name)
        assert one == other, what
    assert kept.model.ridge == mine.model.ridge
    kept.learn_many(fan_rows(2, 100))
    kept.save("fan.elm")
    assert json.loads(elmgrove("inspect", "fan.elm", "--json").out)["rows learned"] == 700


def test_the_name_is_stated_or_kept_or_the_files() -> None:
    detector = trained_detector()

    def name() -> str:
        return member_in("fan-1.elm").name

    detector.save("fan-1.elm")
    assert name() == "fan-1"
    detector.save("fan-1.elm", "cooler")
    assert name() == "cooler"
    detector.save("fan-1.elm")
    assert name() == "cooler"


# What is refused


def federated(*, merges: bool) -> Member:
    other = Member("fan-2", trained_detector(), merges=merges)
    member = Member("fan-1", trained_detector(), merges=merges)
    member.receive(other.contribution())
    save(Path("fan-1.elm"), member)
    return member


def test_a_model_that_rests_on_others_is_a_members() -> None:
    federated(merges=True)
    with pytest.raises(BadInput, match=r"merged with what others know.*Member\.from_bytes"):
        Detector.load("fan-1.elm")


def test_a_model_of_its_own_rows_is_loaded_without_what_others_gave() -> None:
    member = federated(merges=False)
    kept = Detector.load("fan-1.elm")
    assert kept.evidence.close_to(member.detector.evidence)
    assert len(kept.elsewhere.others) == 0 < len(member.detector.elsewhere.others)


def test_what_others_gave_is_not_lost_by_saving_a_detector() -> None:
    federated(merges=False)
    before = Path("fan-1.elm").read_bytes()
    with pytest.raises(BadInput, match=r"'fan-1' holds more than a detector \(heard\)"):
        Detector.load("fan-1.elm").save("fan-1.elm")
    assert Path("fan-1.elm").read_bytes() == before
    trained_detector().save("fan-1-alone.elm")


def test_an_agents_place_in_its_source_is_not_lost() -> None:
    write_fan_rows("new.csv", fan_rows(2, 40))
    trained_detector().save("fan.elm")
    Agent(Settings(state="fan.elm", source="new.csv", verdicts="")).run()
    learned = Detector.load("fan.elm")
    learned.learn_many(fan_rows(3, 10))
    learned.save("fan.elm")
    assert "source" in member_in("fan.elm").notes
    Agent(Settings(state="fan.elm", source="new.csv", verdicts="")).run()
    assert Detector.load("fan.elm").learned == learned.learned


def test_a_state_in_use_is_not_replaced() -> None:
    with locked(Path("fan.elm")), pytest.raises(BadInput, match="in use by another process"):
        trained_detector().save("fan.elm")
    assert not list(Path().iterdir())


def test_what_is_no_state_is_neither_loaded_nor_replaced() -> None:
    write_fan_rows("fan.elm", fan_rows(1, 5))
    for attempt in (lambda: Detector.load("fan.elm"), lambda: trained_detector().save("fan.elm")):
        with pytest.raises(BadFile, match=r"fan\.elm: not a file of Elmgrove's"):
            attempt()


def test_a_damaged_detector_is_refused() -> None:
    trained_detector().save("fan.elm")
    fields, arrays = unseal("elmgrove.state", Path("fan.elm").read_bytes())
    fields["detector"]["warmup"] = "many"
    Path("fan.elm").write_bytes(seal("elmgrove.state", fields, arrays))
    with pytest.raises(BadFile, match="not as a state should be"):
        Detector.load("fan.elm")


# What it shows


def test_a_new_detector_says_what_it_waits_for() -> None:
    new = Detector.for_data(fan_rows(1, 300), window=1)
    missing = f"{new.rows_missing:,} more rows until there are alarms"
    assert repr(new) == (
        f"<Detector of 6 columns: learning at rate 0.01, {missing}; 0 rows learned>"
    )


def test_a_taught_one_says_what_is_anomalous_and_names_its_columns() -> None:
    detector = trained_detector(window=5)
    named = ", ".join(NAMES[:3])
    assert repr(detector) == (
        f"<Detector of 6 columns ({named}, …), window 5: watching at rate 0.01, scores above "
        f"{detector.threshold:.4g} are anomalous; 596 rows learned>"
    )
