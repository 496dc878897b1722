"""Assets: the dashboard's style sheets, scripts and pictures, each under a name of its content."""

from functools import partial
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

#: Where the files are.
STATIC = Path(__file__).parent / "static"
#: What is served, by the ending of a file; licences and notes are not.
MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# A name is of one content for ever, so no browser need ask again.
_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    # A picture that is opened by itself is a document, in which nothing may run.
    "Content-Security-Policy": "default-src 'none'",
}


class Assets:
    """All files that pages load, read once: no path that a browser asks for reaches the disk."""

    def __init__(self, folder: Path = STATIC) -> None:
        found = (path for path in sorted(folder.rglob("*")) if path.suffix in MEDIA)
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        self._addresses = {
            name: f"/ui/static/{sha256(content).hexdigest()[:16]}/{name}"
            for name, content in self._files.items()
        }

    def address(self, name: str) -> str:
        """Gives the path under which a file is served, another one whenever its content changes."""
        return self._addresses[name]

    def routes(self) -> list[Route]:
        """Gives a route for each file."""
        return [
            Route(self._addresses[name], partial(_shown, content, MEDIA[Path(name).suffix]))
            for name, content in self._files.items()
        ]


async def _shown(content: bytes, media: str, request: Request) -> Response:
    request.state.route = "/ui/static"
    return Response(content, headers=_HEADERS, media_type=media)


assets = Assets()
