"""Draws the pictures of "How it works, in pictures": python -m docs.make.pictures.

Points, scores and ellipses are what the library makes of simulated rows (seeded, always the same).
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from docs.make.drawing import BLUE, GREEN, GREY, INK, ORANGE, RED, Picture
from elmgrove import Detector

HERE = Path(__file__).parents[1]
Array = NDArray[np.float64]
#: How flow and temperature of a pump follow its load.
CENTRE, SPREAD, NOISE = np.array([31.0, 52.0]), np.array([3.0, 4.0]), np.array([0.6, 0.8])


def pump(rows: int, seed: int, away: tuple[float, float] = (0.0, 0.0)) -> Array:
    """Rows of a pump: flow and temperature."""
    rng = np.random.default_rng(seed)
    load = rng.normal(size=(rows, 1))
    made: Array = CENTRE + load * SPREAD + rng.normal(size=(rows, 2)) * NOISE + np.array(away)
    return made


class Chart:
    """Turns flow and temperature into pixels of a picture."""

    def __init__(self, left: float, top: float, width: float, height: float) -> None:
        self._low, self._high = np.array([17.0, 32.0]), np.array([47.0, 68.0])
        self._corner, self._size = np.array([left, top + height]), np.array([width, -height])

    def __call__(self, rows: Array) -> Array:
        """Gives the pixels of rows."""
        shares = (np.atleast_2d(rows) - self._low) / (self._high - self._low)
        placed: Array = self._corner + shares * self._size
        return placed

    def frame(self, picture: Picture) -> None:
        """Draws the axes."""
        (left, bottom), (width, height) = self._corner, self._size
        picture.curve([(left, bottom + height), (left, bottom), (left + width, bottom)], GREY, 1.0)
        picture.words(left + width, bottom + 16, "flow", GREY, at="end")
        picture.words(left - 6, bottom + height - 8, "temperature", GREY)


def ring(detector: Detector, rows: Array) -> Array:
    """Points where anomalous begins, around the rows that were learned."""
    stretched = np.linalg.cholesky(np.cov(rows.T))
    angles = np.linspace(0.0, 2.0 * np.pi, 61)
    directions = [stretched @ [np.cos(angle), np.sin(angle)] for angle in angles]
    middle, limit = rows.mean(axis=0), detector.threshold or 0.0
    return np.array([middle + way * _reach(detector, middle, way, limit) for way in directions])


def _reach(detector: Detector, middle: Array, way: Array, limit: float) -> float:
    """How far one may go this way until it is anomalous, by halving."""
    near, far = 0.0, 40.0
    for _ in range(30):
        half = (near + far) / 2.0
        anomalous = detector.score_many((middle + way * half)[None])[0] > limit
        near, far = (near, half) if anomalous else (half, far)
    return near


def taught(rows: Array) -> Detector:
    """A detector that has learned these rows."""
    detector = Detector.for_data(rows, window=1)
    detector.learn_many(rows)
    return detector


def relation() -> Picture:
    """Each value is as usual, and the two together are not."""
    picture = Picture(560, 330, "A row that is anomalous though each of its values is usual")
    chart, rows = Chart(50, 36, 330, 250), pump(700, seed=1)
    chart.frame(picture)
    picture.dots(chart(rows[:350]))
    picture.curve(chart(ring(taught(rows), rows)), BLUE, 1.6, "5 4")
    [[x, y]] = chart(np.array([28.0, 58.0]))
    picture.dot(x, y, RED, 4)
    picture.ring(x, y)
    picture.words(62, 52, "Flow 28: usual. Temperature 58: usual.", RED)
    picture.words(62, 69, "But at this flow it is 48.", RED, bold=True)
    picture.arrow(x, 76, x, y - 12, RED)
    picture.words(330, 238, "dots: rows that were normal", BLUE)
    picture.words(330, 256, "dashes: where anomalous begins", BLUE)
    return picture


def event() -> Picture:
    """Scores, the threshold, and what becomes an event."""
    picture = Picture(640, 270, "Scores over time: single anomalous rows, and an event")
    rows = pump(140, seed=4)
    rows[90:106, 1] += 5.0
    detector = taught(pump(1500, seed=2))
    scores, limit = detector.score_many(rows), detector.threshold or 0.0
    points = [(40 + 4.2 * i, 220 - 38 * np.log1p(score)) for i, score in enumerate(scores)]
    edge = 220 - 38 * np.log1p(limit)
    first, last = 40 + 4.2 * 90, 40 + 4.2 * 105
    picture.box(first - 4, 24, last - first + 8, 200, RED, filled=True)
    picture.curve(points, BLUE, 1.2)
    picture.curve([(40, edge), (628, edge)], INK, 1.2, "6 4")
    for (x, y), score in zip(points, scores, strict=True):
        if score > limit:
            picture.dot(x, y, RED, 3)
    picture.curve([(40, 20), (40, 224), (628, 224)], GREY, 1.0)
    picture.words(46, 20, "score (1 is typical)", GREY)
    picture.words(46, edge - 8, "threshold: 1 % of normal rows are above", INK)
    picture.words((first + last) / 2, 246, "an event: 3 of 5 rows anomalous", RED, at="middle")
    picture.words((first + last) / 2, 262, "one message, not sixteen", RED, at="middle")
    picture.words(628, 246, "time", GREY, at="end")
    return picture


def sums() -> Picture:
    """Rows become sums, and sums are added."""
    picture = Picture(640, 290, "Rows stay on the devices; sums over them are added up")
    for top, name, colour, seed in ((20, "pump 1", BLUE, 1), (155, "pump 2", GREEN, 6)):
        picture.box(16, top, 276, 118, colour, filled=True)
        picture.words(28, top + 20, name, colour, bold=True)
        rows = [f"{flow:.1f}   {warm:.1f}" for flow, warm in pump(3, seed)]
        for number, row in enumerate([*rows, "..."]):
            picture.words(36, top + 44 + 18 * number, row, INK)
        picture.arrow(122, top + 66, 164, top + 66)
        picture.words(176, top + 48, "how many", INK)
        picture.words(176, top + 66, "sum of each", INK)
        picture.words(176, top + 84, "sums of products", INK)
        picture.arrow(296, top + 66, 356, 145 if top < 100 else 150, colour)
    picture.words(366, 156, "+", INK, bold=True)
    picture.arrow(384, 150, 420, 150)
    picture.box(426, 96, 198, 104, ORANGE, filled=True)
    picture.words(440, 120, "sums over all rows", INK, bold=True)
    picture.words(440, 142, "= the model of one that", INK)
    picture.words(440, 160, "saw the rows of both,", INK)
    picture.words(440, 178, "to the last digits", INK)
    picture.words(440, 228, "Take pump 2 out again:", GREEN)
    picture.words(440, 246, "leave its sums away.", GREEN)
    return picture


def together() -> Picture:
    """A row that is anomalous here and normal elsewhere."""
    picture = Picture(640, 340, "Anomalous here, known elsewhere")
    chart = Chart(50, 36, 400, 264)
    chart.frame(picture)
    for colour, away, seed in ((BLUE, (-3.5, 1.0), 5), (GREEN, (5.0, -5.0), 6)):
        rows = pump(600, seed, away)
        picture.dots(chart(rows[:220]), colour)
        picture.curve(chart(ring(taught(rows), rows)), colour, 1.6, "5 4")
    picture.words(110, 120, "pump 1", BLUE, bold=True)
    picture.words(446, 132, "pump 2, in a cooler hall", GREEN, bold=True)
    [[x, y], [far_x, far_y]] = chart(np.array([[35.5, 46.0], [41.5, 64.0]]))
    for place in ((x, y), (far_x, far_y)):
        picture.dot(*place, RED, 4)
        picture.ring(*place)
    picture.words(far_x + 14, far_y - 6, "an alarm on pump 1,", RED, bold=True)
    picture.words(far_x + 14, far_y + 11, "normal nowhere", RED)
    picture.arrow(x + 92, y + 42, x + 12, y + 6, RED)
    picture.words(x + 96, y + 40, "an alarm on pump 1,", INK)
    picture.words(x + 96, y + 57, "normal at pump 2", INK)
    return picture


def window() -> Picture:
    """A usual row at the wrong time, which ten rows side by side show."""
    picture = Picture(640, 230, "Ten rows side by side show what one row does not")
    minutes = np.arange(100)
    values = np.sin(minutes / 7.5)
    values[62:74] = values[62]
    points = [(30 + 6.0 * i, 110 - 66 * value) for i, value in enumerate(values)]
    picture.box(30 + 6.0 * 62 - 4, 26, 6.0 * 11 + 8, 164, RED, filled=True)
    picture.curve(points, BLUE)
    picture.dots(points, BLUE)
    picture.words(30 + 6.0 * 68, 210, "stuck: each row is a usual one", RED, at="middle")
    picture.box(30 + 6.0 * 16 - 4, 30, 6.0 * 9 + 8, 156, INK)
    picture.words(30 + 6.0 * 20, 210, "ten rows, one input", INK, at="middle")
    return picture


PICTURES = {
    "relation": relation,
    "event": event,
    "sums": sums,
    "together": together,
    "window": window,
}


def main(folder: Path = HERE) -> None:
    """Draws all of them into a folder."""
    for name, draw in PICTURES.items():
        draw().save(folder / f"pictures-{name}.svg")


if __name__ == "__main__":
    main()
