"""Files as people have them: what a new user tried, by ``elmgrove learn`` and ``score``."""

import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from support.agents import Start
from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in

NAMES = ["rpm", "temp", "volt", "amp"]


def pump(rows: int = 1500, seed: int = 0) -> np.ndarray:
    """Four sensors with one load behind all but the voltage."""
    rng = np.random.default_rng([seed, rows])
    load = rng.uniform(0.2, 1.0, rows)
    levels = [1000 + 400 * load, 40 + 30 * load, np.full(rows, 230.0), 2 + 8 * load]
    noise = np.array([10.0, 1.0, 1.0, 0.4]) * rng.normal(size=(rows, 4))
    return (np.stack(levels, axis=1) + noise).round(4)


def frame(rows: int = 1500, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(pump(rows, seed), columns=NAMES)


def learn(elmgrove: Elmgrove, data: str, *options: object) -> str:
    ran = elmgrove("learn", data, "--state", "pump.elm", "--window", 1, *options)
    assert ran.code == 0, ran.err
    return ran.err


@pytest.fixture
def limit(elmgrove: Elmgrove) -> float:
    """The threshold that the plain file gives."""
    frame().to_csv("plain.csv", index=False)
    learn(elmgrove, "plain.csv")
    found = detector_in("pump.elm").threshold
    Path("pump.elm").unlink()
    return float(found)


# What the reproductions of a new user say


def test_the_index_of_pandas_and_a_clock_are_not_learned(elmgrove: Elmgrove, limit: float) -> None:
    frame().to_csv("indexed.csv")
    assert "Column 1 ('') counts the rows, and is left out." in learn(elmgrove, "indexed.csv")
    assert detector_in("pump.elm").threshold == limit
    Path("pump.elm").unlink()
    times = 1714564800 + 60 * np.arange(1500)
    frame().assign(epoch=times)[["epoch", *NAMES]].to_csv("clock.csv", index=False)
    said = learn(elmgrove, "clock.csv")
    assert "Column 1 ('epoch') is the time of each row, and not learned." in said
    assert detector_in("pump.elm").threshold == pytest.approx(limit)
    Path("pump.elm").unlink()
    frame().assign(tick=times)[["tick", *NAMES]].to_csv("doubt.csv", index=False)
    said = learn(elmgrove, "doubt.csv")
    assert "Column 'tick' is a clock (seconds since 1970)" in said
    assert "if it is none: --time tick." in said
    assert detector_in("pump.elm").basis.features == ("tick", *NAMES)


@pytest.mark.parametrize("kind", ["gzip", "parquet", "jsonl", "tsv", "sep", "remark", "commas"])
def test_other_ways_to_write_the_same_rows(elmgrove: Elmgrove, limit: float, kind: str) -> None:
    table, options, path = frame(), [], Path("data.csv")
    text = table.to_csv(index=False)
    if kind == "parquet":
        table.to_parquet(path)
    elif kind == "gzip":
        path.write_bytes(gzip.compress(text.encode()))
    elif kind == "jsonl":
        path.write_text(table.to_json(orient="records", lines=True))
    elif kind == "tsv":
        table.to_csv(path, sep="\t", index=False)
    elif kind == "sep":
        path.write_text("sep=;\n" + text.replace(",", ";"))
    elif kind == "remark":
        path.write_text("# made on Monday\n" + text)
    else:
        path.write_text(text.replace(",", ";").replace(".", ","))
        ran = elmgrove("learn", "data.csv", "--state", "pump.elm")
        assert "(decimal commas: --decimal ,)" in one_clear_line(ran)
        options = ["--decimal", ","]
    learn(elmgrove, "data.csv", *options)
    assert detector_in("pump.elm").threshold == limit
    # What was said at learning need not be said again.
    assert elmgrove("score", "data.csv", "--state", "pump.elm").code == 0
    assert elmgrove("score", "plain.csv", "--state", "pump.elm").code == 0


def test_rows_from_standard_input(start: Start, limit: float) -> None:
    rows = Path("plain.csv").read_bytes()
    done = start("learn", "-", "--state", "pump.elm", "--window", 1, stdin=subprocess.PIPE)
    assert done.told(rows) == 0, done.log
    assert detector_in("pump.elm").threshold == limit
    score = ("score", "-", "--state", "pump.elm", "--format", "csv")
    scored = start(*score, stdin=subprocess.PIPE)
    assert scored.told(gzip.compress(rows)) == 0, scored.log
    assert scored.out.count("\n") == 1501


# Time, labels, words and missing values


def test_times_are_shown_and_gaps_are_said(elmgrove: Elmgrove) -> None:
    when = pd.date_range("2024-05-01", periods=1500, freq="min").to_series(index=range(1500))
    when.iloc[700:] += pd.Timedelta(hours=3)
    frame().assign(when=when.dt.strftime("%d.%m.%Y %H:%M")).to_csv("data.csv", index=False)
    said = learn(elmgrove, "data.csv", "--time", "when=%d.%m.%Y %H:%M")
    assert "1 gap in time, up to 10860 s where 60 s are usual: windows begin again there." in said
    odd = frame(20, seed=1).assign(when=[f"02.05.2024 10:{i:02}" for i in range(20)])
    odd.loc[7, "temp"] += 40.0
    odd.to_csv("odd.csv", index=False)
    ran = elmgrove("score", "odd.csv", "--state", "pump.elm", "--worst", 1)
    assert re.search(r"│ +9 │ 2024-05-02 10:07:00 │.*yes │ temp", ran.out)
    ran = elmgrove("score", "odd.csv", "--state", "pump.elm", "--format", "jsonl")
    objects = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["time"] for one in objects[:2]] == [1714644000.0, 1714644060.0]
    ran = elmgrove("score", "odd.csv", "--state", "pump.elm", "--format", "csv")
    assert ran.out.startswith("line,time,score,")


def test_words_are_learned_and_new_ones_are_anomalous(elmgrove: Elmgrove) -> None:
    modes = np.random.default_rng(1).choice(["auto", "manual"], 1500)
    frame().assign(mode=modes).to_csv("data.csv", index=False)
    text = one_clear_line(elmgrove("learn", "data.csv", "--state", "pump.elm"))
    assert "is not a finite number" in text
    learn(elmgrove, "data.csv", "--categories", "mode")
    assert detector_in("pump.elm").basis.features == (*NAMES, "mode=auto", "mode=manual")
    frame(20, 1).assign(mode="test").to_csv("odd.csv", index=False)
    ran = elmgrove("score", "odd.csv", "--state", "pump.elm")
    assert ran.err.count("The word mode=test was never learned") == 1
    assert "20 of 20 rows are anomalous" in ran.err
    text = one_clear_line(
        elmgrove("learn", "data.csv", "--state", "pump.elm", "--categories", "mode")
    )
    assert "--categories: pump.elm exists and keeps the settings" in text


# Large files


def test_a_large_file_takes_little_memory(elmgrove: Elmgrove, tmp_path: Path) -> None:
    """Forty times as many rows take little more memory than they are as numbers."""
    names = ",".join([*NAMES, *(f"{name} 2" for name in NAMES)]) + "\n"
    rows, text = pump(10_000), io.StringIO()
    np.savetxt(text, np.hstack([rows, rows[::-1]]), fmt="%.3f", delimiter=",")
    Path("small.csv").write_text(names + text.getvalue())
    Path("large.csv").write_text(names + 40 * text.getvalue())
    program = (
        "import sys, resource\n"
        "from elmgrove.cli import main\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    for command in ("learn", "score"):
        peaks = []
        for name in ("small.csv", "large.csv"):
            given = [command, name, "--state", f"{name}.elm"]
            done = subprocess.run(
                [sys.executable, "-c", program, *given], capture_output=True, text=True, check=True
            )
            peaks.append(int(done.stderr.split()[-1]) * _UNIT)
        # The rows are 26 MB as numbers and 24 MB as text; their lines and scores 6 MB.
        assert peaks[1] - peaks[0] < 60e6, (command, peaks)


#: The kernel of macOS counts bytes, that of Linux kilobytes.
_UNIT = 1 if sys.platform == "darwin" else 1024


def test_missing_values_are_held_and_counted(elmgrove: Elmgrove) -> None:
    table = frame()
    table.loc[100:101, "temp"] = np.nan
    table.loc[300:309, "amp"] = np.nan
    table.to_csv("data.csv", index=False)
    text = one_clear_line(elmgrove("learn", "data.csv", "--state", "pump.elm"))
    assert "line 102, column 2 ('temp'): the value is missing" in text
    assert "--missing hold keeps the last value" in text
    said = learn(elmgrove, "data.csv", "--missing", "hold")
    assert "7 missing values were filled with the last ones." in said
    assert "Left out 5 bad rows." in said
    assert detector_in("pump.elm").learned == 1495
