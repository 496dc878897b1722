"""MLMG's Algorithm 1: groups by parameters, as many as the silhouette says."""

import numpy as np
import pytest

from elmgrove_papers.mlmg.parameters import by_parameters
from support.factories import RIDGE, contribution_of, near_plane
from support.patterns import SAID, TRUTH, betas


def literal_silhouette(X: np.ndarray, labels: tuple[int, ...]) -> float:
    scores = []
    for i, x in enumerate(X):
        of = {
            name: [np.linalg.norm(x - y) for j, y in enumerate(X) if labels[j] == name and j != i]
            for name in set(labels)
        }
        own = of.pop(labels[i])
        if not own:
            scores.append(0.0)
            continue
        a, b = np.mean(own), min(np.mean(d) for d in of.values())
        scores.append((b - a) / max(a, b))
    return float(np.mean(scores))


def test_algorithm_1_takes_the_number_of_groups_with_the_best_silhouette() -> None:
    found, silhouettes = by_parameters(SAID, RIDGE)
    pairs = set(zip(found.labels, TRUTH, strict=True))
    assert len(pairs) == found.count == 3
    assert list(silhouettes) == list(range(2, len(SAID)))
    assert max(silhouettes, key=lambda k: silhouettes[k]) == 3
    for count, score in silhouettes.items():
        labels = by_parameters(SAID, RIDGE, count).grouping.labels
        assert score == pytest.approx(literal_silhouette(betas(), labels), rel=1e-6)
    assert by_parameters(SAID[::-1], RIDGE).grouping == found


def test_what_has_no_structure_is_one_group_unless_the_paper_is_taken_at_its_word() -> None:
    same = [contribution_of(f"{n}", near_plane(1, n)) for n in range(8)]
    assert by_parameters(same, RIDGE, silhouette=0.9).grouping.count == 1
    assert by_parameters(same, RIDGE, silhouette=-1.0).grouping.count > 1
    assert by_parameters([], RIDGE).grouping.count == 0
