"""A picture as SVG, written by hand: circles, lines, words, nothing that a browser must fetch."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

#: Okabe and Ito's colours, which colour-blind people can tell apart.
BLUE, ORANGE, GREEN, RED, GREY, INK = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#8a8a8a", "#222222"),
)
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" '
    'role="img" font-family="sans-serif" font-size="13">\n<title>{2}</title>\n'
    '<rect width="{0}" height="{1}" rx="8" fill="#ffffff"/>\n'
)


class Picture:
    """Gathers shapes, in pixels from the upper left corner, and writes them to a file."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = _HEAD.format(width, height, escape(title))
        self._shapes: list[str] = []

    def dot(self, x: float, y: float, colour: str = BLUE, size: float = 2.2) -> None:
        """Draws a point."""
        self._add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" fill="{colour}"/>')

    def dots(
        self, points: Iterable[Sequence[float]], colour: str = BLUE, size: float = 2.2
    ) -> None:
        """Draws points, of which each is x and y."""
        shapes = (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}"/>' for x, y in points)
        self._add(f'<g fill="{colour}" fill-opacity="0.55">{"".join(shapes)}</g>')

    def ring(self, x: float, y: float, colour: str = RED, size: float = 7.0) -> None:
        """Draws a circle around a point."""
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}"'
        self._add(f'{shape} fill="none" stroke="{colour}" stroke-width="2"/>')

    def curve(
        self,
        points: Iterable[Sequence[float]],
        colour: str = BLUE,
        width: float = 1.6,
        dash: str = "",
    ) -> None:
        """Draws a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        stroke = f'stroke="{colour}" stroke-width="{width:g}"{dashed}'
        self._add(f'<polyline points="{path}" fill="none" {stroke}/>')

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str = GREY,
        filled: bool = False,
    ) -> None:
        """Draws a frame, or with ``filled`` a pale area."""
        shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6"'
        paint = f'fill="{colour}" fill-opacity="0.16"' if filled else 'fill="none"'
        self._add(f'{shape} {paint} stroke="{colour}"/>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float, colour: str = INK) -> None:
        """Draws an arrow from one point to another."""
        length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
        along, across = (to_x - x) / length * 8.0, (to_y - y) / length * 8.0
        self.curve([(x, y), (to_x, to_y)], colour)
        head = [
            (to_x - along - across / 2.0, to_y - across + along / 2.0),
            (to_x, to_y),
            (to_x - along + across / 2.0, to_y - across - along / 2.0),
        ]
        self.curve(head, colour)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = INK,
        *,
        at: str = "start",
        bold: bool = False,
    ) -> None:
        """Writes words; ``at`` says which part of them is at x: start, middle or end."""
        weight = ' font-weight="bold"' if bold else ""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{at}"'
        self._add(f'<text {place} fill="{colour}"{weight}>{escape(text)}</text>')

    def save(self, path: Path) -> None:
        """Writes the picture to a file."""
        path.write_text(self._head + "\n".join(self._shapes) + "\n</svg>\n")

    def _add(self, shape: str) -> None:
        self._shapes.append(shape)
