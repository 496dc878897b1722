"""InfluxDB line protocol by ``elmgrove learn`` and ``score``: a plant's file like a CSV file."""

from pathlib import Path

import numpy as np

from support.commands import Elmgrove

NAMES = ["rpm", "temp"]


def write(name: str, X: np.ndarray) -> None:
    lines = ["# what Telegraf kept"]
    for second, (rpm, temp) in enumerate(X.tolist()):
        time = (1714564800 + second) * 10**9
        lines += [
            f"cpu,host=a idle=90 {time}",
            f"pump,host=a rpm={rpm!r},temp={temp!r} {time}",
        ]
    Path(name).write_text("\n".join(lines) + "\n")


def test_line_protocol_teaches_what_csv_teaches(elmgrove: Elmgrove) -> None:
    X = np.random.default_rng(0).normal([1000.0, 40.0], [10.0, 1.0], (400, 2))
    write("pump.txt", X)
    header, rows = ",".join(NAMES), [",".join(map(repr, row)) for row in X.tolist()]
    Path("pump.csv").write_text("\n".join([header, *rows]) + "\n")
    how = ("--measurement", "pump,host=a")
    assert elmgrove("learn", "pump.txt", "--state", "a.elm", "--window", 1, *how).code == 0
    assert elmgrove("learn", "pump.csv", "--state", "b.elm", "--window", 1).code == 0
    # The state remembers how it was read; a CSV file is one nevertheless.
    told = [
        elmgrove("score", file, "--state", state, "--format", "jsonl").out
        for file, state in (("pump.csv", "a.elm"), ("pump.csv", "b.elm"))
    ]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == 400
    again = elmgrove("score", "pump.txt", "--state", "a.elm", "--format", "jsonl")
    assert again.code == 0
    assert len(again.out.splitlines()) == 400
