"""What pages load: vendored as it was published, served from memory, kept by browsers."""

import re
from hashlib import sha256

import numpy as np
import pytest

from elmgrove.server.dashboard.rendering import Assets
from support.places import ROOT
from support.serving import Server

STATIC = ROOT / "src/elmgrove/server/dashboard/static"
MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
VENDOR = STATIC / "vendor"
README = (VENDOR / "README.md").read_text()


def test_what_comes_from_others_is_what_they_published() -> None:
    stated = dict(re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", README, re.MULTILINE))
    there = {path.name for path in VENDOR.iterdir() if path.suffix in MEDIA}
    assert there == stated.keys()
    for name, digest in stated.items():
        assert sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


def test_each_of_them_has_its_licence_and_its_version() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| `[\w.]+` ([\d.]+),.*`(LICENSE-\w+)`", README, re.MULTILINE)
    assert rows
    for name, version, licence in rows:
        assert version in name
        assert (VENDOR / licence).stat().st_size > 500


def test_an_asset_is_kept_for_ever_under_a_name_of_its_content(server: Server) -> None:
    found = Assets()
    for path in sorted(STATIC.rglob("*")):
        if path.suffix not in MEDIA:
            continue
        where = found.address(path.relative_to(STATIC).as_posix())
        answer = server.ask("GET", f"/ui/{where}")
        assert answer.status_code == 200
        assert answer.content == path.read_bytes()
        assert answer.headers["content-type"] == MEDIA[path.suffix]
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert sha256(answer.content).hexdigest()[:16] in where


@pytest.mark.parametrize(
    "path",
    [
        "/ui/static/",
        "/ui/static/0123456789abcdef/elmgrove.css",
        "/ui/static/../templates/base.html",
        "/ui/static/%2e%2e/%2e%2e/pages.py",
        "/ui/static/vendor/LICENSE-htmx",
    ],
)
def test_nothing_else_is_served(server: Server, path: str) -> None:
    answer = server.ask("GET", path)
    assert answer.status_code in (303, 404), "a page, or nothing"
    assert len(answer.content) < 3000


def test_nothing_of_ours_asks_another_host() -> None:
    own = [path for path in STATIC.iterdir() if path.suffix in MEDIA]
    own += sorted((STATIC.parent / "templates").iterdir())
    for path in own:
        text = path.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "://" not in text.replace("{{ address }}", ""), path.name


# Colours

TEXT = ("ink", "soft", "faint", "accent")
STATES = ("anomalous", "changing", "learning", "watching", "silent")


def _palette(text: str) -> dict[str, tuple[float, float, float]]:
    found = re.findall(r"--([\w-]+): #([0-9a-f]{6});", text)
    return {name: tuple(bytes.fromhex(value)) for name, value in found}


def _contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """WCAG's contrast of two colours, from 1 to 21."""

    def luminance(colour: tuple[float, ...]) -> float:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    shades = [luminance(tuple(c / 255 for c in colour)) + 0.05 for colour in (one, other)]
    return max(shades) / min(shades)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_can_be_read_and_what_is_drawn_can_be_seen(scheme: str) -> None:
    light, dark = (STATIC / "elmgrove.css").read_text().split("@media (prefers-color-scheme: dark)")
    colours = _palette(light) | (_palette(dark) if scheme == "dark" else {})
    read = [(name, on) for name in TEXT for on in ("page", "surface", "raised", "hover")]
    read += [(name, on) for name in STATES for on in (f"{name}-wash", "surface")]
    read += [("accent-ink", "accent"), ("ink", "accent-wash"), ("ink", "anomalous-wash")]
    drawn = [(name, "surface") for name in ("event", "anomalous", "focus")] + [("focus", "page")]
    low = {
        pair: round(found, 2)
        for pairs, least in ((read, 4.5), (drawn, 3.0))
        for pair in pairs
        if (found := _contrast(colours[pair[0]], colours[pair[1]])) < least
    }
    assert low == {}
