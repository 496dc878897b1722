"""Rendering: pages from templates, the time they show, and headers that hold them tight."""

import json
import math
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from elmgrove import __version__
from elmgrove.errors import Problem


class Assets:
    """All files that pages load, read once: no path that a browser asks for reaches the disk."""

    def __init__(self, folder: Path = Path(__file__).parent / "static") -> None:
        # Licences and notes are not served.
        self._media = {
            ".css": "text/css; charset=utf-8",
            ".js": "text/javascript; charset=utf-8",
            ".svg": "image/svg+xml",
        }
        found = (path for path in sorted(folder.rglob("*")) if path.suffix in self._media)
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}

    def address(self, name: str) -> str:
        """Return the path below the pages at which a file is; another content has another one."""
        return f"static/{sha256(self._files[name]).hexdigest()[:16]}/{name}"

    def routes(self) -> list[Route]:
        return [
            Route(
                f"/ui/{self.address(name)}",
                partial(_shown, content, self._media[Path(name).suffix]),
            )
            for name, content in self._files.items()
        ]


async def _shown(content: bytes, media: str, request: Request) -> Response:
    request.state.route = "/ui/static"
    headers = {
        # An address is of one content for ever, so no browser need ask again.
        "Cache-Control": "public, max-age=31536000, immutable",
        "Cross-Origin-Resource-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        # A picture that is opened by itself is a document, in which nothing may run.
        "Content-Security-Policy": "default-src 'none'",
    }
    return Response(content, headers=headers, media_type=media)


assets = Assets()

#: What every answer of the dashboard says, but for its assets.
HEADERS = {
    # A page loads what this server serves, and sends forms to it; nothing in it runs or colours
    # anything unless it comes from a file, and nobody else shows it in a frame.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # To others nothing is told; with 'no-referrer' browsers would not tell us either where a form
    # comes from, and that is looked at.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


def rendered(template: str, ui: str, *, status: int = 200, **values: Any) -> Response:
    """Make a page of a template; what is put into it is text, never HTML.

    ``ui`` is the path below which all pages are.
    """
    text = _environment.get_template(template).render(ui=ui, **values)
    return HTMLResponse(text, status, HEADERS)


def page(
    request: Request,
    user: Any,
    template: str,
    *,
    federation: str = "",
    seen: str | None = None,
    **values: Any,
) -> Response:
    """Render a template that extends ``page.html``; ``values`` are what it shows.

    With ``seen``, a marker that was asked for before anything else was read, it is live: each part
    of it that says so is loaded again when something changed.
    """
    ui = root_of_pages(request)
    root = f"{ui}/{part_of_url(federation)}/"
    # Links to other pages carry the time range on.
    range_query = query(**stated_range(request))
    tabs = [
        (title, root + path + range_query, request.url.path == root + path)
        for title, path in (("Fleet", ""), ("Federation", "federation"), ("Audit", "audit"))
    ]
    return rendered(
        template,
        ui,
        user=user,
        federation=federation,
        tabs=tabs,
        live="" if seen is None else f"{root}live{query(seen=seen)}",
        range_query=range_query,
        here=asked_for(request),
        **values,
    )


def root_of_pages(request: Request) -> str:
    return f"{request.scope['root_path']}/ui"


def exchange_of(request: Request, federation: str = "") -> str:
    """Return the address of this server, or of a federation there, as commands take it."""
    server = f"{request.url.scheme}://{request.url.netloc}{request.scope['root_path']}"
    return f"{server}/{federation}" if federation else server


def stated_range(request: Request) -> dict[str, str]:
    """Return ``from`` and ``to`` of an address, for links to other pages; by default a day."""
    asked = request.query_params
    return {"from": asked.get("from") or "now-24h", "to": asked.get("to") or "now"}


def path_of(request: Request) -> str:
    """Return the path of a request as it was asked for: a slash in a name is still no slash."""
    asked: bytes = request.scope["raw_path"]
    return asked.partition(b"?")[0].decode("latin-1")


def asked_for(request: Request) -> str:
    path, asked = path_of(request), request.url.query
    return f"{path}?{asked}" if asked else path


def part_of_url(name: str) -> str:
    """Write a name as one part of a path: a slash in it is no slash there."""
    return quote(name, safe="")


def query(**values: object) -> str:
    """Write the query of a link, without what is None or empty.

    >>> query(search="fan 3/ü", page=None, sort="name")
    '?search=fan%203%2F%C3%BC&sort=name'
    """
    stated = {name: value for name, value in values.items() if value not in (None, "")}
    parts = (f"{quote(name, safe='')}={quote(str(stated[name]), safe='')}" for name in stated)
    return f"?{'&'.join(parts)}" if stated else ""


def address(path: str, **values: object) -> str:
    return path + query(**values)


def iso(seconds: float) -> str:
    """Write a time in ISO 8601, in whole seconds, UTC.

    >>> iso(1714573200.9)
    '2024-05-01T14:20:00Z'
    """
    return _in_calendar(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(seconds: float) -> str:
    """Write a time for people, UTC.

    >>> clock(1714573200.9)
    '2024-05-01 14:20'
    """
    return _in_calendar(seconds).strftime("%Y-%m-%d %H:%M")


def _in_calendar(seconds: float) -> datetime:
    """The time, or the first or last that a calendar has: no page fails for one device's clock."""
    try:
        return datetime.fromtimestamp(math.floor(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


def ago(seconds: float, now: float | None = None) -> str:
    """Say how long ago something was; what is ahead, by a clock that is, is now.

    >>> [ago(1000.0, now) for now in (1003.0, 1100.0, 9000.0, 200_000.0)]
    ['just now', '1 min ago', '2 h ago', '2 days ago']
    """
    passed = (time.time() if now is None else now) - seconds
    if passed < 10:
        return "just now"
    if passed < 60:
        return f"{int(passed)} s ago"
    if passed < 3600:
        return f"{int(passed // 60)} min ago"
    if passed < 2 * 86_400:
        return f"{int(passed // 3600)} h ago"
    return f"{int(passed // 86_400)} days ago"


def number(value: float | None) -> str:
    """Write a number with its thousands apart; a dash for what is not known.

    >>> number(1234567.0), number(0.12345), number(None)
    ('1,234,567', '0.123', '—')
    """
    if value is None or not math.isfinite(value):
        return "—"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"


def counted(value: float, one: str, many: str = "") -> str:
    """Say how many there are of something.

    >>> counted(1, "device"), counted(2000, "device"), counted(2, "entry", "entries")
    ('1 device', '2,000 devices', '2 entries')
    """
    return f"{number(value)} {one if value == 1 else many or f'{one}s'}"


def _made() -> jinja2.Environment:
    """The templates' world: all that is put into a page is escaped, and nothing may be missing."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    given: Mapping[str, Any] = {
        "asset": assets.address,
        # Swap nothing in for a refusal, and keep no pages.
        "htmx_config": json.dumps(
            {
                "extensions": "sse",
                "history": "reload",
                "includeIndicatorCSS": False,
                # A table that somebody opened stays open.
                "morphIgnore": ["data-htmx-powered", "open"],
                "noSwap": [204, 304, "4xx", "5xx"],
                "sse": {"reconnectMaxDelay": 15_000},
            }
        ),
        "version": __version__,
        "now": time.time,
        "query": query,
        "counted": counted,
    }
    made.globals.update(given)
    filters = {"ago": ago, "clock": clock, "iso": iso, "number": number, "part": part_of_url}
    made.filters.update(filters, shell=shlex.quote)
    return made


_environment = _made()


#: The ranges that pages lead to, as they are called and as an address says them.
RANGES = {"1 h": "now-1h", "24 h": "now-24h", "7 d": "now-7d"}


@dataclass(frozen=True)
class TimeRange:
    """From when to when: ``begin`` and ``end`` in seconds, and as the address says it.

    What an address says is moving (``now-24h`` to ``now``) or in ISO 8601, and so for ever the
    same: ``fixed`` is the latter of any range, to show somebody else what one sees.
    """

    begin: float
    end: float
    stated: tuple[str, str]

    @classmethod
    def of(cls, request: Request) -> "TimeRange":
        """Read ``from`` and ``to`` of a page's address; refuse what is no time, or no range."""
        now, asked = time.time(), stated_range(request)
        stated = asked["from"], asked["to"]
        begin, end = _time("from", stated[0], now), _time("to", stated[1], now)
        if not 60.0 <= end - begin <= 400 * 86_400.0:
            raise Problem("malformed", "from and to: they must be a minute to 400 days apart")
        return cls(begin, end, stated)

    @property
    def until(self) -> float:
        """The time before which is all that it shows: a range that ends now leaves out nothing.

        Rows may be ahead of the clock here, by hours where they tell a local time as UTC.
        """
        return math.inf if self.is_moving else self.end

    @property
    def query(self) -> dict[str, str]:
        return {"from": self.stated[0], "to": self.stated[1]}

    @property
    def fixed(self) -> dict[str, str]:
        """The range in times that stay, for an address that shows the same for ever."""
        return {"from": iso(self.begin), "to": iso(self.end)}

    @property
    def is_moving(self) -> bool:
        """Return whether it ends now, whenever that is: only such a page changes by itself."""
        return self.stated[1] == "now"


def with_range(request: Request) -> str | None:
    """Return the query that says the range which an address leaves out; None if it says all."""
    asked = dict(request.query_params)
    if asked.get("from") and asked.get("to"):
        return None
    return query(**asked | stated_range(request))


def step_of(lasts: float, most: int) -> int:
    """Choose the seconds of one step, as a clock shows them: a time has at most so many."""
    weeks = (7 * 1440, 28 * 1440)
    for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, *weeks):
        if lasts / minutes <= 60 * most:
            break
    return 60 * minutes


def step_text(seconds: int) -> str:
    """Say what one step stands for, as in "for each".

    >>> step_text(60), step_text(900), step_text(3600), step_text(172_800)
    ('minute', '15 minutes', 'hour', '2 days')
    """
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"))
    size, name = next((size, name) for size, name in units if seconds >= size)
    return name if seconds == size else counted(seconds // size, name)


def _time(name: str, text: str, now: float) -> float:
    found = re.fullmatch(r"now(?:-(\d{1,4})([mhd]))?", text)
    if found is not None:
        number, unit = found.groups()
        return now - float(number or 0) * {"m": 60.0, "h": 3600.0, "d": 86_400.0}[unit or "m"]
    try:
        read = datetime.fromisoformat(text[:40])
        # Without a zone it would be that of this machine, which nobody asked for.
        seconds = read.timestamp() if read.tzinfo is not None else _refuse(name, text)
    except (ValueError, OverflowError, OSError):
        return _refuse(name, text)
    # Beyond the year 9900 there is no calendar for what is around it; before 1970 nothing is told.
    return seconds if 0.0 <= seconds <= 250e9 else _refuse(name, text)


def _refuse(name: str, text: str) -> float:
    raise Problem(
        "malformed",
        f"{name}: {text!r:.40} is no time: write 2026-11-17T06:00:00Z, now, or now-24h (m, h, d)",
    )
