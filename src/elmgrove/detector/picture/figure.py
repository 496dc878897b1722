"""A picture of rows, saved in a file or shown in a window."""

from io import BytesIO
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from elmgrove.detector.frames import times_of
from elmgrove.detector.picture.course import course_of
from elmgrove.detector.picture.drawing import draw
from elmgrove.errors import BadInput, require_extra

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector

# Colours of a PNG file.
_COLOURS = 128


def plotted(
    detector: "Detector", rows: Any, path: Any = None, *, times: Any = None, name: str = ""
) -> Any:
    """Draws what ``Detector.plot`` does."""
    if times is None:
        times = times_of(rows, detector.basis.features)
    figure = draw(course_of(detector, rows, times, name=name), window=path is None)
    if path is not None:
        save_picture(figure, path)
    return figure


def save_picture(figure: Any, path: Any) -> None:
    """Saves a figure, in the format that the file's name ends with."""
    png = str(path).lower().endswith(".png")
    drawn = BytesIO() if png else path
    with catch_warnings():
        # Of a sensor's name in a script that the font lacks.
        simplefilter("ignore", UserWarning)
        try:
            figure.savefig(drawn, dpi=110)
        except ValueError as error:
            raise BadInput(f"{path}: {error}") from error
    if png:
        # A third of the size, and nobody sees a difference.
        images = require_extra("PIL.Image", "plot")
        images.open(drawn).convert("RGB").quantize(_COLOURS, dither=0).save(path, optimize=True)
