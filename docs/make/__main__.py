"""``make docs``: gathers the pages, builds the site with strict links, and checks the result."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from docs.make.check import faults_of
from docs.make.pages import ROOT, gather

#: The program that makes a site of pages, of the environment that this runs in.
ZENSICAL = Path(sys.executable).parent / "zensical"


def build(folder: Path) -> Path:
    """Builds the site in a folder; says where it is, or ends with what is wrong."""
    gather(folder / "build" / "docs")
    if folder != ROOT:
        shutil.copy(ROOT / "mkdocs.yml", folder)
    # What mkdocstrings loads of this package is found from any folder.
    found = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([ZENSICAL, "build", "--clean", "--strict"], cwd=folder, env=found, check=True)
    site = folder / "site"
    if faults := faults_of(site):
        sys.exit("\n".join([*faults, f"{len(faults)} faults"]))
    return site


def main() -> None:
    """Builds the site of this checkout, and says where it is."""
    site = build(ROOT)
    pages = len(list(site.rglob("*.html")))
    print(f"{pages} pages, every link and anchor checked: {site / 'index.html'}")
    print("With search: python -m http.server --directory site, then http://localhost:8000")


if __name__ == "__main__":
    main()
