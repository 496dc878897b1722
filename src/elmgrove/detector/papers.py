"""What the papers' detectors are made of, in the place of the default one's settings."""

from collections.abc import Mapping
from dataclasses import dataclass

from elmgrove.detector.patterns import PatternRule


@dataclass(frozen=True)
class Paper:
    """A paper's detector: each row by itself and as it is, scored by its loss, models merged.

    Layer and activation are for the user to choose, as in the papers.
    """

    title: str
    patterns: PatternRule | None = None
    score: str = "loss"
    scaling: str = "none"
    window: int = 1
    merged: bool = True

    def in_words(self, units: int, activation: str) -> str:
        """What it sets, and the layer that was chosen."""
        text = (
            f"As in {self.title}: score loss of {units} hidden units ({activation}), scaling none, "
            f"window {self.window}, and what others know becomes part of the model (merged)."
        )
        if self.patterns is None:
            return text
        return (
            f"{text} K-means splits the first {self.patterns.start_rows} rows into as many "
            f"patterns as the silhouette says, at most {self.patterns.most}; each has a model, and "
            "the one with the lowest loss, beside what is typical of it, decides. For groups of "
            "patterns that a server finds, run the agent with --merge group."
        )


#: By the name that ``elmgrove learn --as`` takes.
PAPERS: Mapping[str, Paper] = {
    "ito2021": Paper("Ito et al. 2021"),
    "mlmg": Paper("MLMG (Qin and Kondo 2021)", PatternRule()),
}
