"""``elmgrove federate``: a federation in rounds, on this machine."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.cli.federate_data import FleetFiles, FleetRows, hold_out
from elmgrove.federation.member import Member
from elmgrove.storage.disk import load
from support.commands import Elmgrove, one_clear_line
from support.pages import blocks
from support.patterns import rows_of
from support.places import ROOT

FEW = ["--clients", "8"]


def write(path: Path, rows: np.ndarray) -> None:
    names = ",".join(f"sensor {index}" for index in range(rows.shape[1]))
    lines = [",".join(map(repr, row)) for row in rows.tolist()]
    path.write_text("\n".join([names, *lines]) + "\n")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A folder with a CSV file for each of three fans; one is empty."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    for index, count in enumerate((60, 90, 0)):
        write(folder / f"fan-{index}.csv", rows_of(0, index, count))
    return folder


@pytest.mark.parametrize("rule", ["e2lm", "fedavg", "groups"])
def test_the_state_that_is_saved_can_be_shown_and_scores(elmgrove: Elmgrove, rule: str) -> None:
    ran = elmgrove("federate", "--rule", rule, *FEW, "--rounds", 2, "-o", "all.elm")
    assert ran.code == 0, ran.err
    assert "8 of 8 clients took part" in ran.out
    shown = json.loads(elmgrove("inspect", "all.elm", "--json").out)
    what = r"\d+ models, of which the best answers," if rule == "groups" else "one model"
    rest = " of its own rows and those of 8 others of 'federation'"
    assert re.match(what + rest, shown["others"])
    rows = FleetRows.read(None, 8, 0, FleetFiles()).X[:20]
    names = ",".join(f"pixel {index}" for index in range(64))
    np.savetxt("new.csv", rows, "%.4f", ",", header=names, comments="")
    scored = elmgrove("score", "new.csv", "--state", "all.elm", "--format", "jsonl")
    scores = [json.loads(line)["score"] for line in scored.out.splitlines()]
    assert len(scores) == 20
    # A model of nothing would leave the mean square of the rows.
    assert np.mean(scores) < 0.3 * np.mean(rows**2)


def test_one_round_of_sums_is_the_model_of_all_rows_that_are_not_tested(elmgrove: Elmgrove) -> None:
    assert elmgrove("federate", *FEW, "--seed", 3, "-o", "all.elm").code == 0
    found = load(Path("all.elm"), Member.from_bytes).detector
    assert found.basis.score == "loss"
    central = Detector.for_basis(found.basis)
    rest, _ = hold_out(FleetRows.read(None, 8, 3, FleetFiles()), 0.2, 3)
    central.learn_many(rest.X)
    np.testing.assert_allclose(found.model.beta, central.model.beta, rtol=1e-9, atol=1e-9)


def test_compact_messages_are_a_fraction_and_the_model_nearly_the_same(elmgrove: Elmgrove) -> None:
    federate = ("federate", "--rule", "fedavg", *FEW, "--rounds", 2)
    assert elmgrove(*federate, "-o", "64.elm").code == 0
    ran = elmgrove(*federate, "--bits", 8, "-o", "8.elm")
    assert ran.code == 0, ran.err
    assert "8 of 8 clients took part" in ran.out
    few, many = (load(Path(f"{bits}.elm"), Member.from_bytes) for bits in (8, 64))
    rows = FleetRows.read(None, 8, 0, FleetFiles()).X
    scores = [float(np.mean(member.detector.score_many(rows))) for member in (few, many)]
    assert scores[0] == pytest.approx(scores[1], rel=0.1)
    assert scores[0] != scores[1]


def test_a_folder_is_a_client_a_file_and_the_empty_one_is_named(
    elmgrove: Elmgrove, fleet: Path
) -> None:
    ran = elmgrove("federate", "--data", fleet, "--rounds", 2, "-o", "all.elm")
    assert ran.code == 0
    assert "2 of 3 clients took part" in ran.out
    assert "Left out fan-2: in round 2, nothing new" in ran.err
    member = load(Path("all.elm"), Member.from_bytes)
    assert member.merged is not None
    assert member.merged.evidence.count == 120
    assert member.detector.basis.features == tuple(f"sensor {index}" for index in range(6))
    # A device with rows of its own goes on from there.
    assert elmgrove("learn", fleet / "fan-0.csv", "--state", "all.elm").code == 0


def test_columns_are_told_by_name_though_the_first_file_is_empty(
    elmgrove: Elmgrove, fleet: Path
) -> None:
    assert elmgrove("federate", "--data", fleet, "-o", "one.elm").code == 0
    (fleet / "fan-.csv").write_text("")
    lines = [line.split(",") for line in (fleet / "fan-1.csv").read_text().splitlines()]
    (fleet / "fan-1.csv").write_text("".join(",".join(cells[::-1]) + "\n" for cells in lines))
    assert elmgrove("federate", "--data", fleet, "-o", "other.elm").code == 0
    one, other = (load(Path(f"{name}.elm"), Member.from_bytes).merged for name in ("one", "other"))
    assert one is not None
    assert other is not None
    assert other.evidence.close_to(one.evidence, 1e-12)


def test_of_many_clients_left_out_some_are_named(elmgrove: Elmgrove) -> None:
    write(Path("rows.csv"), rows_of(0, 1, 40))
    ran = elmgrove("federate", "--data", "rows.csv", "--clients", 60, "--test", "rows.csv")
    assert ran.code == 0
    assert "Left out client-40, client-41, client-42, client-43, client-44 and 15 more: " in ran.err


def test_one_file_is_cut_into_pieces(elmgrove: Elmgrove) -> None:
    write(Path("rows.csv"), rows_of(0, 1, 100))
    ran = elmgrove("federate", "--data", "rows.csv", "--clients", 7, "--fraction", 0.5)
    assert ran.code == 0
    assert "3 of 7 clients took part" in ran.out
    assert load(Path("federation.elm"), Member.from_bytes).merged is not None


def test_what_does_not_fit_is_one_clear_line(
    elmgrove: Elmgrove, fleet: Path, tmp_path: Path
) -> None:
    text = one_clear_line(elmgrove("federate", "--data", fleet, "--clients", 3))
    assert "has a file for each client" in text
    (tmp_path / "nothing").mkdir()
    assert "no .csv files" in one_clear_line(elmgrove("federate", "--data", tmp_path / "nothing"))
    write(fleet / "fan-1.csv", rows_of(0, 1, 9, inputs=4))
    assert "sensor 4" in one_clear_line(elmgrove("federate", "--data", fleet))
    write(Path("rows.csv"), rows_of(0, 1, 5))
    few = ("federate", "--data", "rows.csv", "--clients", 2, "--rule", "fedavg")
    few = (*few, "--test", "rows.csv")
    assert "Fed-ELMS needs more than 6 rows to start; the clients have 5" in one_clear_line(
        elmgrove(*few)
    )


def test_without_flower_the_install_line_is_named(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flwr", None)
    text = one_clear_line(elmgrove("federate", "--engine", "flower"))
    assert text == (
        "Error: this needs flwr: pip install 'elmgrove[flower]' "
        "(from a checkout: pip install '.[flower]')\n"
    )


def test_the_page_shows_the_client_of_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "flower.md").read_text()
    program = blocks(page, "python")[-1]
    assert "client_app" in program
    assert program in (ROOT / "examples" / "flower-app" / "digits" / "client.py").read_text()
