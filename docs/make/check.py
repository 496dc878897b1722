"""Checks a site that was built: each link and anchor, nothing from elsewhere, no page is lost."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself, by element and attribute.
_FETCHED = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("object", "data"),
}


class Page(HTMLParser):
    """What one page of the site has: anchors, links, and what a browser fetches for it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors = {""}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes note of an element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name, value in given.items():
            # A canonical address is told to search engines, and not fetched.
            if (tag, name) in _FETCHED and given.get("rel") != "canonical":
                self.fetched.append(value)


def faults_of(site: Path) -> list[str]:
    """Finds what is wrong with a site, one line each; nothing if all is well."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    found = [fault for page in pages.values() for fault in _faults(page, pages, site)]
    return [*found, *_lost(pages, site), *_styled(site)]


def _faults(page: Page, pages: dict[Path, Page], site: Path) -> Iterator[str]:
    here = page.path.relative_to(site)
    for address in page.fetched:
        if urlsplit(address).netloc:
            yield f"{here} fetches {address} from elsewhere"
        elif not _target(page, address, site).exists():
            yield f"{here} fetches {address}, which is not there"
    for address in page.links:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = _target(page, address, site)
        if not target.exists():
            yield f"{here} links to {address}, which is not there"
        elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"{here} links to {address}, but that page has no such anchor"


def _target(page: Page, address: str, site: Path) -> Path:
    """The file behind an address; of a folder its page."""
    path = unquote(urlsplit(address).path)
    if not path:
        return page.path.resolve()
    base = site if path.startswith("/") else page.path.parent
    target = (base / path.lstrip("/")).resolve()
    return target / "index.html" if target.is_dir() else target


def _lost(pages: dict[Path, Page], site: Path) -> Iterator[str]:
    """Pages that nobody can walk to from the first, and those without a way back to it."""
    first = (site / "index.html").resolve()
    known, new = {first}, [first]
    while new:
        page = pages[new.pop()]
        for target in (_target(page, one, site) for one in page.links if not urlsplit(one).netloc):
            if target in pages and target not in known:
                known.add(target)
                new.append(target)
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        # Nobody walks to what a server shows for a page that is not there.
        if path not in known and here.name != "404.html":
            yield f"{here} can't be reached"
        if first not in {_target(page, one, site) for one in page.links}:
            yield f"{here} has no way back to the first page"


def _styled(site: Path) -> Iterator[str]:
    """Style sheets that would fetch something from elsewhere."""
    for path in site.rglob("*.css"):
        text = path.read_text()
        if "@import" in text or "url(http" in text or "url(//" in text:
            yield f"{path.relative_to(site)} fetches from elsewhere"
