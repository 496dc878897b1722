"""CONTRIBUTING tells the truth: its tree has each file, and its two journeys run as they are told.

The row is one of a file that a real agent reads, with a device's default settings. The contribution
is a sync by HTTP with a real server in this process; what either side enters is counted together.
"""

import inspect
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mode
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.exchange.connection import connect
from elmgrove.federation.charter import Charter
from support.agents import write_rows
from support.places import ROOT
from support.serving import serving

LIBRARY, TEXT = ROOT / "src" / "elmgrove", (ROOT / "CONTRIBUTING.md").read_text()
#: How many files of `src/elmgrove` each of them enters: these may only fall.
MOST_BY_A_ROW, MOST_BY_A_CONTRIBUTION = 34, 60
X = np.random.default_rng(0).normal(size=(5000, 6))


class Trace:
    """The files of the library whose functions run, in all threads that begin while it is on.

    ``legs`` has a set for each time that ``start`` was called, and one before.
    """

    def __init__(self, start: CodeType | None = None) -> None:
        self._start, self.legs = start, [set[str]()]

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # What runs when a module is imported is no part of a journey.
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED:
            if code is self._start:
                self.legs.append(set())
            if code.co_filename.startswith(f"{LIBRARY}/"):
                self.legs[-1].add(code.co_filename.removeprefix(f"{LIBRARY}/"))

    @contextmanager
    def on(self) -> Iterator[None]:
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


def named(section: str) -> set[str]:
    text = re.split(r"^#+ ", TEXT.partition(f"\n### {section}\n")[2], flags=re.MULTILINE)[0]
    return set(re.findall(r"`src/elmgrove/([\w/]+\.py)`", text))


def test_the_tree_has_each_file_once() -> None:
    packages = re.findall(r"^- \*\*([a-z/]+)\*\*: (`.*)$", TEXT, re.MULTILINE)
    told = [f"{folder}/{name}.py" for folder, line in packages for name in re.findall(r"`(\w+)`", line)]
    found = (path.relative_to(LIBRARY) for path in LIBRARY.glob("*/**/*.py"))
    assert sorted(told) == sorted(str(path) for path in found if path.stem != "__init__")


def test_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    detector = Detector.for_data(X, window=1)
    detector.learn_many(X[:4000])
    detector.save("fan.elm")
    write_rows(Path("fan.csv"), np.vstack([X[4000:4500], X[4500:4550] + 20, X[4550:]]))
    agent, trace = Agent(Settings(source="fan.csv", state="fan.elm")), Trace(Agent._handle.__code__)
    with trace.on():
        agent.run()
    assert named("A row") - set().union(*trace.legs) == set()
    assert 0 < mode(map(len, trace.legs[1:400])) <= MOST_BY_A_ROW


def test_a_contribution(tmp_path: Path) -> None:
    trace, charter = Trace(), Charter("fans", Detector.for_data(X, window=1).basis)
    with trace.on(), serving(f"sqlite:///{tmp_path}/store.db") as server:
        url, token = f"{server.base}/fans", server.found(charter).token
        with connect(url, "a", token=token) as a, connect(url, "b", token=token) as b:
            for number, session in enumerate([a, b, a, b]):
                session.detector.learn_many(X[number * 1000 :][:1000])
                trace.legs.append(set())
                assert session.sync().updated
            entered = set(trace.legs[-1])
    assert named("A contribution") - entered == set()
    assert len(entered) <= MOST_BY_A_CONTRIBUTION, sorted(entered)
