"""All papers and their figures, by name."""

from elmgrove.errors import BadInput
from elmgrove_papers.earlier import ITO2019, ONLAD, SUNAGA2023
from elmgrove_papers.fed_elms import FIGURES as FED_ELMS
from elmgrove_papers.figure import Figure
from elmgrove_papers.ito2021 import FIGURES as ITO2021
from elmgrove_papers.ito2021 import FIGURES_2020 as ITO2020
from elmgrove_papers.mlmg import FIGURES as MLMG

PAPERS: dict[str, tuple[Figure, ...]] = {
    "ito2020": ITO2020,
    "ito2021": ITO2021,
    "fed-elms": FED_ELMS,
    "mlmg": MLMG,
    "ito2019": ITO2019,
    "onlad": ONLAD,
    "sunaga2023": SUNAGA2023,
}


def figure(paper: str, name: str) -> Figure:
    """Finds a figure by its names, or raises ``BadInput`` with those that there are."""
    if paper not in PAPERS:
        raise BadInput(f"no paper {paper!r}; there are: {', '.join(PAPERS)}")
    for found in PAPERS[paper]:
        if found.name == name:
            return found
    known = ", ".join(found.name for found in PAPERS[paper])
    raise BadInput(f"no figure {name!r} of {paper}; there are: {known}")
