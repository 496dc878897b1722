"""The settings of a device: one table for the file, the flags and the environment."""

import socket
import tomllib
import typing
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from elmgrove.algebra.spectrum import Spectrum
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.inputs import require_window
from elmgrove.detector.patterns import PatternRule
from elmgrove.errors import BadInput
from elmgrove.exchange.broker_address import BrokerAddress, is_at_broker
from elmgrove.federation.selection import RULES, Rule, rule_of
from elmgrove.reading.layout import Layout

#: The environment variable of a setting is this and its name in capitals.
PREFIX = "ELMGROVE_DEVICE_"


@dataclass(frozen=True)
class Settings:
    """The settings of an agent: keys of ``device.toml``, flags of ``device run``, and variables."""

    #: The settings that were given by a file, a flag or a variable, whatever their value.
    given: ClassVar[frozenset[str]] = frozenset()

    name: Annotated[str, "The device's name; '' = the state's, or this machine's.", "Device"] = ""
    state: Annotated[str, "The state file; made if it is not there.", "Device"] = "device.elm"
    metrics: Annotated[str, "host:port where Prometheus may read metrics; '' = none.", "Device"] = (
        ""
    )
    log_format: Annotated[str, "How lines of the log are written: text or json.", "Device"] = "text"

    source: Annotated[
        str,
        "Rows: a file, a folder, topics of a broker (mqtt://host/plant/pump1/#), or - for standard "
        "input.",
        "Source",
    ] = "-"
    follow: Annotated[bool, "Wait for more rows at the end of the file.", "Source"] = False
    pattern: Annotated[
        str,
        "Which files of a folder to read, as *.csv *.gz; '' = csv, tsv, jsonl, ndjson, lp, influx, "
        "npy, parquet, gz. Of a broker: topics below the source's, as pump1/# hall/temp.",
        "Source",
    ] = ""
    measurement: Annotated[
        str,
        "Which lines of InfluxDB line protocol are rows, like cpu,cpu=cpu-total; as for Telegraf, "
        "verdicts are line protocol, too.",
        "Source",
    ] = ""
    time: Annotated[
        str, "Column with each row's time, or COLUMN=FORMAT; '' = found if obvious.", "Source"
    ] = ""
    columns: Annotated[list[str], "Learn only this column (repeatable).", "Source"] = field(
        default_factory=list
    )
    drop: Annotated[list[str], "Leave this column out (repeatable).", "Source"] = field(
        default_factory=list
    )
    decimal: Annotated[str, "What a decimal point is written as: . or ,", "Source"] = "."
    encoding: Annotated[str, "Of text: utf-8, utf-16, latin-1, cp1252, ...", "Source"] = "utf-8"
    missing: Annotated[
        str, "Where a value is missing: refuse the row, or hold the last value.", "Source"
    ] = "refuse"
    mqtt_seconds: Annotated[
        float,
        "Of a broker, one number a topic: a row every this many seconds; 0 = when each topic has "
        "come again.",
        "Source",
    ] = 0.0

    exchange: Annotated[
        str,
        "A server's URL with the federation's name, a broker's with its topic, or a shared folder.",
        "Fleet",
    ] = ""
    token: Annotated[
        str, "The federation's token, or @ and a file with it, to join the first time.", "Fleet"
    ] = ""
    ca: Annotated[str, "Certificate of the authority that signed the server's.", "Fleet"] = ""
    certificate: Annotated[str, "The device's own, for a server that asks for one.", "Fleet"] = ""
    mqtt_password: Annotated[
        str,
        "The device's password at brokers; the user is in the URL: mqtts://fan-1@host.",
        "Fleet",
    ] = ""
    merge: Annotated[
        str, f"Which devices to learn from: {', '.join(RULES)}, or names with commas.", "Fleet"
    ] = "everyone"
    guard: Annotated[
        bool, "Upload only after enough new rows; this is no proof of privacy.", "Fleet"
    ] = True
    sync_seconds: Annotated[float, "Seconds between two syncs; 0 = only at the end.", "Fleet"] = (
        60.0
    )
    reports: Annotated[
        str,
        "What the server is told with each sync: none, figures (how the device is doing), or rows "
        "(also anomalous rows, with their values).",
        "Fleet",
    ] = "figures"
    server_commands: Annotated[
        str,
        "What the server may ask for, as its dashboard does: none, bounded (accept, reject and "
        "undo, which may take out a tenth of what was learned a day), or any.",
        "Fleet",
    ] = "bounded"

    save_rows: Annotated[int, "Rows between two saves: the most a crash can lose.", "Device"] = 1000
    save_seconds: Annotated[float, "Seconds between two saves, if there were rows.", "Device"] = (
        60.0
    )

    verdicts: Annotated[
        str, "File for verdicts, a line each; - for output, '' for none.", "Alarms"
    ] = "-"
    only: Annotated[
        str, "Which verdicts: all, anomalies or alarms; or events instead of rows.", "Alarms"
    ] = "all"
    webhook: Annotated[str, "URL that alarms are posted to.", "Alarms"] = ""
    webhook_format: Annotated[str, "What is posted: json, slack or ntfy.", "Alarms"] = "json"
    command: Annotated[
        str, "Command that gets each alarm on its standard input, as one line of JSON.", "Alarms"
    ] = ""

    mqtt: Annotated[
        str,
        "Broker for verdicts, events, status and commands, like mqtts://host/elmgrove; '' = none.",
        "Alarms",
    ] = ""

    on_change: Annotated[
        str,
        "When rows have changed for good: ask, adapt, pattern, relearn (wait for a person; forget "
        "faster; add a pattern; learn from the beginning).",
        "Alarms",
    ] = "ask"

    like: Annotated[
        str, "New device: a state or evidence file to take the layer from.", "New device"
    ] = ""
    start_rows: Annotated[
        int,
        "New device: rows that decide scaling and window, without exchange and like; of samples "
        "at least 20 frames.",
        "New device",
    ] = 100
    units_from: Annotated[
        str,
        "New device in own units, with exchange or like: a file of its normal rows, a day or more, "
        "that tell its level and deviation of each column.",
        "New device",
    ] = ""
    window: Annotated[
        str,
        "New device: rows that are one input, or auto: 10 for a time series, 1 for a table.",
        "New device",
    ] = "auto"
    spectrum: Annotated[
        str,
        "New device: rows are samples of fast signals, RATE:LENGTH[:BANDS][:mel] like 2000:256; "
        "'' = they are not.",
        "New device",
    ] = ""
    patterns: Annotated[str, "New device: number of normal patterns, or auto.", "New device"] = "1"
    rate: Annotated[float, "The share of normal rows that may be flagged.", "Alarms"] = 0.01
    watch_now: Annotated[
        bool, "Alarms from the first threshold on: do not count normal rows first.", "Alarms"
    ] = False
    alarm: Annotated[
        str,
        "An event opens at K anomalous rows of the last N, and ends after COOLDOWN rows without "
        "another such K: K/N or K/N/COOLDOWN.",
        "Alarms",
    ] = "3/5"
    merged: Annotated[
        bool,
        "One model of everybody decides, as in the papers; else as the federation says, or as "
        "before.",
        "Fleet",
    ] = False

    def __post_init__(self) -> None:
        for name, known in {
            "only": ("all", "anomalies", "alarms", "events"),
            "webhook_format": ("json", "slack", "ntfy"),
            "log_format": ("text", "json"),
            "on_change": ("ask", "adapt", "pattern", "relearn"),
            "server_commands": ("none", "bounded", "any"),
            "reports": ("none", "figures", "rows"),
        }.items():
            if (value := getattr(self, name)) not in known:
                raise BadInput(f"{name}: {', '.join(known[:-1])} or {known[-1]}, not {value!r}")
        port = self.metrics.rpartition(":")[2]
        if self.metrics and not (port.isdecimal() and int(port) < 2**16 and ":" in self.metrics):
            raise BadInput(f"metrics: host:port, like 127.0.0.1:9190, not {self.metrics!r}")
        if is_at_broker(self.source):
            # Here, since few devices read from a broker.
            from elmgrove.device.sources.mqtt import RowTopics

            RowTopics.of(self.source, self.pattern)
        if self.mqtt:
            topic = BrokerAddress.parsed(self.mqtt).topic
            if {*topic} & {"+", "#"}:
                raise BadInput(f"mqtt: one publishes under a topic without + and #, not {topic!r}")
        if self.patterns != "auto" and not (self.patterns.isdecimal() and int(self.patterns)):
            raise BadInput(f"patterns: auto or a number from 1 on, not {self.patterns!r}")
        require_window(self.window)
        # They raise if they can't be read.
        _ = self.chosen_spectrum, self.layout, self.alarm_rule
        self._require_numbers()

    def _require_numbers(self) -> None:
        for name in ("sync_seconds", "mqtt_seconds"):
            if not getattr(self, name) >= 0:
                raise BadInput(f"{name} can't be negative")
        for name in ("save_rows", "start_rows", "save_seconds"):
            if not getattr(self, name) > 0:
                raise BadInput(f"{name} must be above 0")

    @property
    def own_name(self) -> str:
        return self.name or socket.gethostname()

    @property
    def path(self) -> Path:
        return Path(self.state)

    @property
    def layout(self) -> Layout:
        known = [one.name for one in fields(Layout) if hasattr(self, one.name)]
        # '' is how a setting says nothing.
        return Layout(**{name: getattr(self, name) for name in known if getattr(self, name) != ""})

    @property
    def pattern_rule(self) -> PatternRule | None:
        """The rule by which the device tells patterns apart; None for one model of all rows."""
        if self.patterns == "1":
            return None
        number = self.patterns if self.patterns == "auto" else int(self.patterns)
        return PatternRule(number)

    @property
    def alarm_rule(self) -> AlarmRule:
        return AlarmRule.parsed(self.alarm)

    @property
    def chosen_spectrum(self) -> Spectrum | None:
        return Spectrum.parsed(self.spectrum) if self.spectrum else None

    @property
    def first_rows(self) -> int:
        return first_rows(self.start_rows, self.chosen_spectrum)

    @property
    def rule(self) -> Rule:
        return rule_of(self.merge)


def first_rows(start_rows: int, spectrum: Spectrum | None) -> int:
    return start_rows if spectrum is None else max(start_rows, 20 * spectrum.length)


def read_settings(path: Path | None, given: dict[str, Any]) -> Settings:
    """Reads the file, if there is one; flags and environment (``given``) take precedence."""
    values = ({} if path is None else _read(path)) | given
    if str(values.get("token", "")).startswith("@"):
        secret = Path(values["token"][1:])
        try:
            values["token"] = secret.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"token: {secret} can't be read: {error}") from error
    made = Settings(**values)
    # Not a field, since every field is a setting.
    object.__setattr__(made, "given", frozenset(values))
    return made


def help_of(setting: str) -> str:
    return str(_hint(setting).__metadata__[0])


def type_of(setting: str) -> Any:
    return typing.get_args(_hint(setting))[0]


def group_of(setting: str) -> str:
    return str(_hint(setting).__metadata__[1])


def _hint(setting: str) -> Any:
    return typing.get_type_hints(Settings, include_extras=True)[setting]


def _read(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    known = {one.name for one in fields(Settings)}
    for key, value in table.items():
        if key not in known:
            near = get_close_matches(key, known, n=2)
            meant = f"did you mean {' or '.join(near)}? " if near else ""
            if isinstance(value, dict):
                meant = f"settings stand above any [{key}]; "
            raise BadInput(
                f"{path}: no setting is called {key!r}; {meant}'device run --help-all' lists all"
            )
        try:
            table[key] = msgspec.convert(value, type_of(key))
        except msgspec.ValidationError as error:
            raise BadInput(f"{path}: {key} = {value!r}: {str(error).lower()}") from error
    return table
