"""Pages whose commands and programs are run as somebody would who reads them: one after another."""

import os
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from support.sameness import require_same

#: A line above a block that no test can run, and why.
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
_BLOCK = re.compile(
    r"(?:`([\w.-]+)`:\n\n)?^(?:(<!-- [^\n]* -->)\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
#: What commands print now is written into the pages instead of being compared.
WRITE = os.environ.get("ELMGROVE_TEST_WRITE_PAGES") == "1"


class Block(NamedTuple):
    """A block of a page: its language, what it says and where.

    ``not_run`` says why no test runs it; ``file`` is what a file is called that it shows.
    """

    language: str
    text: str
    start: int
    not_run: str = ""
    file: str = ""


class Step(NamedTuple):
    """A command or a program of a page, and where the page shows what it prints."""

    source: str
    program: bool
    start: int
    end: int


def blocks_of(page: str) -> list[Block]:
    """All blocks of a page, in their order."""
    found = []
    for match in _BLOCK.finditer(page):
        said = NOT_RUN.fullmatch(match[2] or "")
        reason = said[1] if said else ""
        found.append(Block(match[3], match[4], match.start(4), reason, match[1] or ""))
    return found


def blocks(page: str, language: str) -> list[str]:
    """What the blocks of one language say."""
    return [block.text for block in blocks_of(page) if block.language == language]


def commands_in(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a console and what is shown that it prints."""
    for step in _steps_in(Block("console", block, 0)):
        yield step.source, block[step.start : step.end]


def steps_of(page: str) -> list[Step]:
    """What is run of a page: consoles, and programs with the block of text right behind them."""
    found, every = list[Step](), blocks_of(page)
    for block, after in pairwise([*every, Block("", "", 0)]):
        if block.not_run:
            continue
        if block.language == "console":
            found += _steps_in(block)
        elif block.language == "python":
            shown = after if after.language == "text" else Block("", "", block.start)
            found.append(Step(block.text, True, shown.start, shown.start + len(shown.text)))
    return found


def _steps_in(block: Block) -> Iterator[Step]:
    """The commands of a console; a backslash continues a line."""
    for part in re.finditer(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        command = re.sub(r" \\\n\s*", " ", part[1]).rstrip("\n")
        yield Step(command, False, block.start + part.start(2), block.start + part.end(2))


def play(page: str, run: Callable[[Step], str], kept: Callable[[str], str] = str) -> str:
    """Runs all of a page, compares what it shows (of that what is kept), or else writes it."""
    written, done = "", 0
    for step in steps_of(page):
        printed = run(step)
        # What ends within a line must not take the next one along.
        whole = printed if not printed or printed.endswith("\n") else f"{printed}\n"
        written += page[done : step.start] + re.sub(r"[ \t]+\n", "\n", whole)
        done = step.end
        if not WRITE:
            require_same(step.source, kept(printed), kept(page[step.start : step.end]))
    return written + page[done:]
