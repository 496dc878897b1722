"""Gathers what the site is made of: the pages as they are, with links that hold there, and more."""

import os
import re
import shutil
from pathlib import Path

from docs.make.api import CHAPTERS, api_page, page_of
from docs.make.reference import commands_page, examples_page, http_page, settings_page

ROOT = Path(__file__).parents[2]
#: Pages of the checkout that are not in docs, by their names on the site.
BESIDE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)]*)?\))")
_NOTE = (
    "\nOn this site: [commands](commands.md), [settings](settings.md), [HTTP](http.md), "
    "[examples](examples.md), and the API of "
)


def gather(folder: Path) -> None:
    """Writes all pages and files of the site into a folder that is made for it."""
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("make", "__init__.py", "__pycache__")
    shutil.copytree(ROOT / "docs", folder, ignore=ignored)
    shutil.copytree(
        ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path in folder.glob("*.md"):
        path.write_text(linked(path.read_text(), ROOT / "docs"))
    for name, page in BESIDE.items():
        (folder / page).write_text(linked((ROOT / name).read_text(), ROOT))
    made = {
        "commands.md": commands_page(),
        "settings.md": settings_page(),
        "http.md": http_page(),
        "examples.md": examples_page(ROOT / "examples"),
        **{page_of(chapter): api_page(chapter) for chapter in CHAPTERS},
    }
    for name, text in made.items():
        (folder / name).write_text(text)
    chapters = ", ".join(f"[{chapter}]({page_of(chapter)})" for chapter in CHAPTERS)
    reference = folder / "reference.md"
    title, _, rest = reference.read_text().partition("\n")
    reference.write_text(f"{title}\n{_NOTE}{chapters}.\n{rest}")


def linked(text: str, folder: Path) -> str:
    """Gives a page of a folder with links that hold on the site; code stays as it is."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.MULTILINE | re.DOTALL)
    for place in range(0, len(parts), 2):
        parts[place] = _LINK.sub(lambda found: _moved(found, folder), parts[place])
        # Else a link of Markdown's other kind: [:BANDS][:mel].
        parts[place] = re.sub(r"(?<=\w)\[(?=:)", r"\\[", parts[place])
    return "".join(parts)


def _moved(found: re.Match[str], folder: Path) -> str:
    target = Path(os.path.normpath(folder / found[2])).relative_to(ROOT)
    if str(target) in BESIDE:
        where = BESIDE[str(target)]
    elif target.parts[0] == "docs":
        where = str(Path(*target.parts[1:]))
    elif target.parts[0] == "examples" and (ROOT / target).is_dir():
        return f"{found[1]}examples.md#{target.name})"
    elif target.parts[0] == "examples":
        where = str(target)
    else:
        return "](contributing.md)"
    return f"{found[1]}{where}{found[3]}"
