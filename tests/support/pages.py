"""Pages whose commands and programs are run as somebody would who reads them: one after another."""

import os
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest

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


# Whether a command printed what a page shows, but for what is of the moment and the machine.


#: Whether the last sync of an agent, or one before it, was the first to hear of another.
_SOONER = re.compile(r"(?<=\bsync: ).*", re.MULTILINE)
#: What a device learns depends a little on when it first hears from the others; and what the last
#: bits of numbers are may decide a row or two of a test.
NEAR = (
    *("elmgrove device run", "elmgrove fleet ", "elmgrove federation "),
    *("elmgrove federate ", "elmgrove rounds show"),
)
NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")
#: A number within a word, as in JSON.
DECIMAL = re.compile(r"(\d+\.\d+(?:e[-+]\d+)?)")
#: Times, and fingerprints, which follow from the last bits of numbers; in JSON with what is around.
OF_THE_RUN = re.compile(
    r"""["([{]*
    ((\d{4}-\d\d-\d\d)?[T ]?\d\d:\d\d(:\d\d)?([,.]\d+)?Z?|\d{4}-\d\d-\d\d
    |([0-9a-f]{32}){1,2}|[0-9a-f]{12}…)
    [")\]}]*[,.;:]?""",
    re.VERBOSE,
)


def words(text: str) -> list[str]:
    """Without times, the lines of tables and the blanks between words: they are the moment's."""
    text = _SOONER.sub(lambda found: found[0].replace(" (updated)", ""), text)
    text = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+", "", _timeless(text), flags=re.MULTILINE)
    return re.sub(r"[─━┃│┏┓┗┛┡┩╇┳┻┼┌┐└┘├┤┬┴╈]", " ", text).split()


def _timeless(text: str) -> str:
    """Without how many seconds rounds took: in a table of rounds that is a column."""
    column, kept = slice(0), list[str]()
    for line in text.splitlines():
        if head := re.match(r"round .*(seconds)\b", line):
            column = slice(*head.span(1))
        elif not re.match(r" +\d", line):
            column = slice(0)
        kept.append(line[: column.start] + line[column.stop :] if column.start else line)
    return "\n".join(kept)


def pieces(word: str) -> list[str]:
    """A word that is a number as it is, of others the numbers in them and what is between."""
    return [word] if NUMBER.fullmatch(word) else [part for part in DECIMAL.split(word) if part]


def about(piece: str, share: float = 0.05, least: float = 0.003) -> object:
    """A number as something that the numbers near it are equal to."""
    value = value_of(piece)
    return value if isinstance(value, str) else pytest.approx(value, rel=share, abs=least)


def value_of(piece: str) -> float | str:
    """A piece, as a number if it is one."""
    plain = piece.replace(",", "") if NUMBER.fullmatch(piece) else piece
    return float(plain) if NUMBER.fullmatch(plain) or DECIMAL.fullmatch(plain) else piece


def require_same(command: str, printed: str, shown: str) -> None:
    """Fails unless a command printed what is shown; times and fingerprints may differ."""
    got, wanted = words(printed), words(shown)
    if len(got) == len(wanted):
        both = list(zip(got, wanted, strict=True))
        got = [b if OF_THE_RUN.fullmatch(a) and OF_THE_RUN.fullmatch(b) else a for a, b in both]
    near = (0.05, 0.003) if command.startswith(NEAR) else (1e-9, 1e-12)
    found = [value_of(piece) for word in got for piece in pieces(word)]
    assert found == [about(piece, *near) for word in wanted for piece in pieces(word)], command
