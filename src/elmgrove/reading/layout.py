"""What the user says about a file of rows; the rest is found in the file itself."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any, Self

from elmgrove.errors import BadInput, require_whole
from elmgrove.reading.line_protocol import series_of

#: The note under which a state keeps how the rows were written that it was made with.
LAYOUT = "layout"

# A state knows its columns by itself.
_NOT_REMEMBERED = {"columns", "drop", "categories", "beside", "remembered"}


@dataclass(frozen=True)
class Layout:
    """How to read a file of rows, where it does not tell by itself.

    ``time`` is a column, or ``COLUMN=FORMAT`` as for ``strptime``. Only ``columns`` are learned, if
    there are any, and never ``drop``, ``label`` (which rows were anomalous) or ``beside`` (read as
    it stands). ``categories`` are columns of words. ``format="influx"`` or a ``measurement``
    (``cpu,cpu=cpu-total``) says that a text is InfluxDB line protocol. With ``missing="hold"`` the
    last value stands in for a missing one, in ``hold_rows`` rows at most. Columns have names, or
    numbers from 1 where a file has none. What is ``remembered`` with a state need not be there.
    """

    time: str | None = None
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    label: str | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    missing: str = "refuse"
    hold_rows: int = 5
    categories: tuple[str, ...] = ()
    format: str | None = None
    measurement: str | None = None
    beside: str | None = None
    remembered: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("columns", "drop", "categories"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.missing not in ("refuse", "hold"):
            raise BadInput(f"missing must be refuse or hold, not {self.missing!r}")
        if self.decimal not in (".", ","):
            raise BadInput(f"decimal must be a point or a comma, not {self.decimal!r}")
        if self.delimiter is not None:
            written = self.delimiter.replace("\\t", "\t").replace("tab", "\t")
            if len(written) != 1 or written in '"\r\n':
                raise BadInput(
                    f"delimiter must be one character (tab for a tabulator), not {self.delimiter!r}"
                )
            object.__setattr__(self, "delimiter", written)
        try:
            "".encode(self.encoding)
        except LookupError as error:
            raise BadInput(
                f"encoding {self.encoding!r} is unknown; utf-8, utf-16, latin-1 or cp1252, say"
            ) from error
        require_whole("hold_rows", self.hold_rows, 0)
        if self.format not in (None, "influx"):
            raise BadInput(f"format: influx, or nothing for all others, not {self.format!r}")
        if self.measurement is not None:
            series_of(self.measurement)

    def is_influx(self, name: str = "") -> bool:
        """Whether a text of this name is InfluxDB line protocol."""
        ending = PurePath(name.lower().removesuffix(".gz")).suffix
        said = self.format == "influx" or self.measurement is not None
        # What is remembered holds for a stream, and not for a file that says otherwise.
        asked = said and not self.remembered & {"format", "measurement"}
        others = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
        return asked or ending in (".lp", ".influx") or (said and ending not in others)

    @property
    def fields(self) -> dict[str, Any]:
        """What is not as usual, as JSON holds it: to be remembered with a state."""
        return {
            name: value
            for name, value in asdict(self).items()
            if value != getattr(Layout(), name) and name not in _NOT_REMEMBERED
        }

    def after(self, fields: Mapping[str, Any]) -> Self:
        """This layout with what was remembered (``fields``) in place of what the user left out."""
        own, usual = vars(self), vars(Layout())
        taken = {
            name: value
            for name, value in fields.items()
            if name in usual.keys() - _NOT_REMEMBERED and own[name] == usual[name]
        }
        return replace(self, **taken, remembered=frozenset(taken))
