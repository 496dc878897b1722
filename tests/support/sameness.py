"""Whether a command printed what a page shows, but for what is of the moment and the machine."""

import re

import pytest

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
