"""``elmgrove federation audit``: what was done on a server, by whom; exported and checked."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import typer
from rich.table import Column
from rich.table import Table as Grid

from elmgrove.cli.options import notes, print_result, shown
from elmgrove.errors import BadInput, plain
from elmgrove.exchange.http import request
from elmgrove.federation.audit import AuditRecord, require_unbroken
from elmgrove.reading.times import format_time

ROOT = "/v1/audit"
# Records that are asked for at once, where all are wanted.
_PAGE = 1000


def audit(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(help="The federation, also a deleted one \\[default: the server's own]."),
    ] = "",
    device: Annotated[str | None, typer.Option(help="What concerns this device.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print records as JSON lines, the oldest first.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Verify that all records are as they were written.")
    ] = False,
) -> None:
    """Show what was done in a federation lately, by whom; --json prints all of it.

    Each record has a hash over itself and the record before it; keep what [bold]--json[/] prints
    elsewhere, and compare.

    Example: [bold]elmgrove federation audit fans --device fan-1[/]
    """
    wanted = {"federation": name} | ({} if device is None else {"device": device})
    if check:
        if device is not None:
            raise BadInput("--check needs all records: leave --device out")
        _check(name, _on_server(context, wanted))
    elif as_json:
        for record in _on_server(context, wanted):
            typer.echo(json.dumps(record.fields))
    else:
        with context.obj.client(ROOT) as opened:
            _show(name, _page(opened, wanted | {"limit": "50"}))


def _page(opened: httpx.Client, asked: dict[str, str]) -> list[AuditRecord]:
    answer = request(opened, "GET", "", params=asked)
    with answer.reading():
        return [
            AuditRecord.from_fields(stated)
            for stated in answer.read(list[dict[str, Any]], "records")
        ]


def _on_server(context: typer.Context, wanted: dict[str, str]) -> Iterator[AuditRecord]:
    after = 0
    with context.obj.client(ROOT) as opened:
        while page := _page(opened, wanted | {"after": str(after), "limit": str(_PAGE)}):
            yield from page
            after = page[-1].number


def _check(name: str, records: Iterator[AuditRecord]) -> None:
    last = require_unbroken(records)
    if last is None:
        # What was emptied must not look like what is whole.
        raise BadInput(_none(name))
    print_result(
        f"All records up to {last.number}, of {format_time(last.at)} UTC, are as they were "
        f"written. The last one's hash is {last.hash}"
    )


def _show(name: str, records: list[AuditRecord]) -> None:
    if not records:
        notes.print(_none(name))
        return
    headings = ("number", "time (UTC)", "who", "what", "details")
    grid = Grid(*(Column(heading, overflow="fold") for heading in headings))
    for record in records:
        stated = {key: _brief(key, value) for key, value in record.detail.items()}
        details = ", ".join(f"{key} {text}" for key, text in stated.items() if text)
        # What a record says may be somebody else's words.
        who, what = plain(record.actor), plain(details, 4000)
        grid.add_row(str(record.number), shown(record.at), who, record.act, what)
    print_result(grid)


def _none(name: str) -> str:
    of = f"of {name}" if name else "of the server itself; name a federation to see those of its own"
    return f"There are no such records {of}."


def _brief(key: str, value: Any) -> str:
    """A detail as people read it, hashes by their beginning; empty where there is none."""
    if value is None or (key == "unrecorded" and not value):
        return ""
    if key == "expires":
        return f"{format_time(value)} UTC"
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, dict):
        inner = {name: _brief(name, one) for name, one in value.items()}
        return "(" + ", ".join(f"{name} {text}" for name, text in inner.items() if text) + ")"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{text[:12]}…" if len(text) == 64 and text.isalnum() else text
