"""``elmgrove merge`` of a file with P and β: U and V are computed where it is merged."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove.algebra.fed_elms import RoundUpdate
from elmgrove.rounds.messages import Reply
from elmgrove.storage.disk import save
from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in
from support.fans import fan_rows, write_fan_rows

RIDGE = 0.02


@pytest.fixture(name="state")
def state_fixture(elmgrove: Elmgrove) -> Path:
    """A device with one model, by loss."""
    write_fan_rows("normal.csv", fan_rows(1, 300))
    learn = ("learn", "normal.csv", "--state", "fan-1.elm", "--score", "loss", "--merged")
    assert elmgrove(*learn, "--watch-now").code == 0
    return Path("fan-1.elm")


def node(state: Path, mine: np.ndarray, ridge: float | None = RIDGE) -> Path:
    """A node that knows OS-ELM's equations, row by row as they are printed, and no more."""
    basis = detector_in(state).basis
    P = np.eye(basis.layer.units) / RIDGE
    beta = np.zeros((basis.layer.units, basis.outputs))
    for x in basis.scaling(mine):
        h = basis.layer(x[np.newaxis])
        P = P - P @ h.T @ h @ P / (1.0 + h @ P @ h.T)
        beta = beta + P @ h.T @ (x - h @ beta)
    # Rounding makes P a little lopsided, and a message holds one of its triangles.
    P = np.triu(P) + np.triu(P, 1).T
    save(Path("node.update"), Reply("node", basis, RoundUpdate(beta, P, len(mine)), ridge))
    return Path("node.update")


def test_a_nodes_p_and_beta_are_merged_as_the_rows_that_it_learned(
    elmgrove: Elmgrove, state: Path
) -> None:
    mine = fan_rows(2, 200, shift=1.0)
    ran = elmgrove("merge", "--state", state, node(state, mine))
    assert (ran.code, "node, 200 rows learned: merged." in ran.err) == (0, True)
    detector = detector_in(state)
    basis = detector.basis
    X = basis.scaling(np.vstack([fan_rows(1, 300), mine]))
    H = basis.layer(X)
    beta = np.linalg.solve(H.T @ H + 1e-3 * np.eye(H.shape[1]), H.T @ X)
    new = basis.scaling(fan_rows(3, 50))
    losses = np.mean((basis.layer(new) @ beta - new) ** 2, axis=1)
    np.testing.assert_allclose(detector.score_many(fan_rows(3, 50)), losses, rtol=1e-6)
    # As with any other contribution: again changes nothing, and it can be forgotten.
    assert "nothing new" in elmgrove("merge", "--state", state, "node.update").err
    assert elmgrove("forget", "--state", state, "--origin", "node").code == 0


def test_what_is_no_sum_of_the_nodes_own_rows_is_refused(elmgrove: Elmgrove, state: Path) -> None:
    before = state.read_bytes()
    ran = elmgrove("merge", "--state", state, node(state, fan_rows(2, 200), ridge=None))
    assert "went on from a server's model" in one_clear_line(ran)
    ran = elmgrove("merge", "--state", state, node(state, fan_rows(2, 2), ridge=10 * RIDGE))
    assert "was it learned with a smaller ridge?" in one_clear_line(ran)
    assert state.read_bytes() == before
