"""The settings of a device that say who it is, and where its rows come from."""

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from elmgrove.reading import INFLUX, REFUSE, Layout

# The groups of these settings, as ``device run --help`` shows them.
DEVICE, SOURCE = "Device", "Source"


@dataclass(frozen=True)
class RowSettings:
    """What an agent is told of itself and of its rows; ``Settings`` has the rest."""

    #: The settings that were given by a file, a flag or a variable, whatever their value.
    given: ClassVar[frozenset[str]] = frozenset()

    name: Annotated[str, "The device's name; '' = the state's, or this machine's.", DEVICE] = ""
    state: Annotated[str, "The state file; made if it is not there.", DEVICE] = "device.elm"
    metrics: Annotated[str, "host:port where Prometheus may read metrics; '' = none.", DEVICE] = ""
    log_format: Annotated[str, "How lines of the log are written: text or json.", DEVICE] = "text"

    source: Annotated[
        str,
        "Rows: a file (CSV, JSON lines, line protocol, also with gzip; .npy, Parquet), a folder "
        "that files drop into, topics of a broker (mqtt://host/plant/pump1/#), - for input.",
        SOURCE,
    ] = "-"
    follow: Annotated[bool, "Wait for more rows at the end of the file.", SOURCE] = False
    pattern: Annotated[
        str,
        "Which files of a folder to read, as *.csv *.gz; '' = csv, tsv, jsonl, ndjson, lp, influx, "
        "npy, parquet, gz. Of a broker: topics below the source's, as pump1/# hall/temp.",
        SOURCE,
    ] = ""
    format: Annotated[
        str,
        f"{INFLUX}: rows and verdicts are InfluxDB line protocol, as for Telegraf; '' = found.",
        SOURCE,
    ] = ""
    measurement: Annotated[
        str,
        "Which lines of line protocol are rows, like cpu,cpu=cpu-total; '' = those of the first "
        "measurement.",
        SOURCE,
    ] = ""
    time: Annotated[
        str, "Column with each row's time, or COLUMN=FORMAT; '' = found if obvious.", SOURCE
    ] = ""
    columns: Annotated[list[str], "Learn only this column (repeatable).", SOURCE] = field(
        default_factory=list
    )
    drop: Annotated[list[str], "Leave this column out (repeatable).", SOURCE] = field(
        default_factory=list
    )
    label: Annotated[str, "Column that says which rows were anomalous: never learned.", SOURCE] = ""
    delimiter: Annotated[
        str, "What separates cells: one character, or tab; '' = found.", SOURCE
    ] = ""
    decimal: Annotated[str, "What a decimal point is written as: . or ,", SOURCE] = "."
    encoding: Annotated[str, "Of text: utf-8, utf-16, latin-1, cp1252, ...", SOURCE] = "utf-8"
    missing: Annotated[
        str, "Where a value is missing: refuse the row, or hold the last value.", SOURCE
    ] = REFUSE
    hold_rows: Annotated[int, "Rows for which a missing value is held, at most.", SOURCE] = 5
    categories: Annotated[
        list[str], "New device: column of words, each becomes a 0 or 1 (repeatable).", SOURCE
    ] = field(default_factory=list)
    mqtt_seconds: Annotated[
        float,
        "Of a broker, one number a topic: a row every so many seconds; 0 = when each topic has "
        "come again.",
        SOURCE,
    ] = 0.0

    @property
    def own_name(self) -> str:
        """The name for a new device: the one that was set, or else this machine's."""
        return self.name or socket.gethostname()

    @property
    def path(self) -> Path:
        """The path of the state file."""
        return Path(self.state)

    @property
    def layout(self) -> Layout:
        """What is said about how the rows are written."""
        said = {name: getattr(self, name) for name in vars(Layout()) if name != "remembered"}
        # '' is how a setting says nothing.
        return Layout(**{name: value for name, value in said.items() if value != ""})
