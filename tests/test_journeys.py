"""CONTRIBUTING is true: its tree has each file, and both journeys enter the files that they name.

The row is one of a file that an agent reads with default settings. The contribution is a sync by
HTTP with a real server in this process; what both sides enter is counted.
"""

import re
import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from statistics import mode
from types import CodeType, FrameType

import numpy as np

import elmgrove
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.exchange.session import connect
from elmgrove.federation.charter import Charter
from support.factories import write_rows
from support.places import ROOT
from support.serving import serving

LIBRARY = elmgrove.__file__.removesuffix("__init__.py")
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
#: How many files of `src/elmgrove` each of them enters: these may only fall.
MOST_BY_A_ROW, MOST_BY_A_CONTRIBUTION = 16, 50
X = np.random.default_rng(0).normal(size=(5000, 6))


class Trace:
    """The files of the library that are entered, in a new set each time ``start`` is called."""

    def __init__(self, start: CodeType | None = None) -> None:
        self._start, self.legs = start, [set[str]()]

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code, name = frame.f_code, frame.f_code.co_filename
        if code is self._start and event == "call":
            self.legs.append(set())
        # Calls of functions alone: imports are no part of a journey.
        if event == "call" and code.co_flags & CO_OPTIMIZED and LIBRARY in name:
            self.legs[-1].add(name.removeprefix(LIBRARY))

    def __enter__(self) -> None:
        threading.setprofile(self)
        sys.setprofile(self)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def named(section: str) -> set[str]:
    text = re.split(r"^#+ ", TEXT.partition(f"\n### {section}\n")[2], flags=re.MULTILINE)[0]
    return set(re.findall(r"`src/elmgrove/([\w/]+\.py)`", text))


def test_the_tree_has_each_file_once() -> None:
    lines = re.findall(r"^- \*\*([a-z/]+)\*\*: (.*)$", TEXT, re.MULTILINE)
    told = [f"{at}/{name}.py" for at, line in lines for name in re.findall(r"`(\w+)`", line)]
    found = (str(path.relative_to(LIBRARY)) for path in Path(LIBRARY).glob("*/**/*.py"))
    assert sorted(told) == sorted(name for name in found if not name.endswith("__init__.py"))


def test_a_row(tmp_path: Path) -> None:
    detector, trace = elmgrove.Detector.for_data(X, window=1), Trace(Agent._handle.__code__)
    detector.learn_many(X[:4000])
    detector.save(state := f"{tmp_path}/fan.elm")
    path = write_rows(tmp_path / "fan.csv", X[4000:] + 20 * (np.arange(1000) // 50 == 10)[:, None])
    with trace:
        Agent(Settings(source=str(path), state=state, verdicts=f"{tmp_path}/fan.jsonl")).run()
    assert named("A row") - set[str]().union(*trace.legs) == set()
    assert 0 < mode(map(len, trace.legs[1:400])) <= MOST_BY_A_ROW


def test_a_contribution(tmp_path: Path) -> None:
    trace, charter = Trace(), Charter("fans", elmgrove.Detector.for_data(X, window=1).basis)
    with trace, serving(f"sqlite:///{tmp_path}/store.db") as server:
        url, token = f"{server.base}/fans", server.found(charter).token
        with connect(url, "a", token=token) as a, connect(url, "b", token=token) as b:
            for number, session in enumerate([a, b, a, b]):
                session.detector.learn_many(X[number * 1000 :][:1000])
                trace.legs.append(set())
                assert session.sync().updated
            entered = set(trace.legs[-1])
    assert named("A contribution") - entered == set()
    assert len(entered) <= MOST_BY_A_CONTRIBUTION, sorted(entered)
