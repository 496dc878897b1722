"""Agents whose machines have several normal patterns, as real processes around a real server."""

from pathlib import Path

import numpy as np
import pytest

from support.agents import Start, verdicts
from support.factories import detector_in, member_in, write_rows
from support.serving import LAYER, charter, serving


def kinds(*centres: float) -> np.ndarray:
    """Rows of several kinds in turn, each around a place of its own and in a plane of its own."""
    rng = np.random.default_rng(int(sum(centres)))
    each = [
        rng.normal(size=(200, 2)) @ rng.normal(size=(2, LAYER.inputs)) + centre
        for centre in centres
    ]
    rows: np.ndarray = np.stack(each, axis=1).reshape(-1, LAYER.inputs)
    return rows


@pytest.mark.parametrize("patterns", ["auto", "2"])
def test_agents_tell_patterns_apart_and_learn_those_of_others(
    device: Start, tmp_path: Path, patterns: str
) -> None:
    with serving(f"{tmp_path}/store.db") as server:
        token = server.found(charter("fans")).token
        known = {"exchange": f"{server.base}/fans", "token": token, "patterns": patterns}
        for name, centres in (("a", (0.0, 20.0)), ("b", (40.0, 60.0)), ("a", ())):
            if centres:
                write_rows(tmp_path / f"{name}.csv", kinds(*centres))
            # The second time "a" has nothing new to read, and hears from "b".
            ran = device(name, **known)
            assert ran.end() == 0, ran.log
    for name, others in (("a", 1), ("b", 1)):
        member = member_in(tmp_path / f"{name}.elm")
        assert member.detector.patterns is not None
        assert len(member.detector.model.own) == 2
        assert len(member.detector.model.foreign) == 2
        assert member.merged is not None
        assert member.merged.devices == others
        told = verdicts(tmp_path / f"{name}.jsonl")
        assert len({one["pattern"] for one in told[300:] if one["learned"]}) == 2
    a = detector_in(tmp_path / "a.elm")
    alone = detector_in(tmp_path / "a.elm")
    alone.set_prior([])
    theirs = kinds(40.0, 60.0)[-50:]
    assert a.score_many(theirs).mean() < 0.5 * alone.score_many(theirs).mean()
