"""How lines of a log are written: as text for people, or as an object of JSON for programs."""

import json
import logging
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from elmgrove.errors import BadInput

#: The ways to write a line.
TEXT, JSON = LOG_FORMATS = ("text", "json")

LogFormat = Annotated[
    str, typer.Option(help=f"How lines of the log are written: {' or '.join(LOG_FORMATS)}.")
]

# What every record has; all else was given with it as a field.
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "color_message"}


class JsonLines(logging.Formatter):
    """Writes a record as one line: time, level, logger and message, and the fields given with it.

    >>> made = {"name": "a", "levelname": "INFO", "msg": "hi", "created": 0, "rows": 3}
    >>> JsonLines().format(logging.makeLogRecord(made))[36:]
    ' "level": "info", "logger": "a", "message": "hi", "fields": {"rows": 3}}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Make the line; an exception's traceback is one of its fields."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = {name: value for name, value in vars(record).items() if name not in _USUAL}
        if fields:
            line["fields"] = fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        try:
            return json.dumps(line, ensure_ascii=False, default=str, allow_nan=False)
        except ValueError:  # infinite, which JSON can't hold, is no reason to lose the line
            return json.dumps({**line, "fields": {"text": repr(fields)}}, ensure_ascii=False)


def require_log_format(log_format: str) -> None:
    if log_format not in LOG_FORMATS:
        raise BadInput(f"--log-format: {' or '.join(LOG_FORMATS)}, not {log_format!r}")


def write_json_lines(level: int) -> None:
    """Write all logs and warnings of this process to standard error as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler])
    logging.captureWarnings(True)
