"""What happened in each round, for people: a table, and who was left out and why."""

from rich.table import Table as Grid

from elmgrove.rounds import Delivery, RoundReport

#: Clients that are named where many have the same fate.
_NAMED = 5


def grid_of(reports: list[RoundReport]) -> Grid:
    """One line for each round."""
    headings = ("round", "asked", "answered", "left out", "bytes down", "bytes up", "seconds")
    grid = Grid(title="What happened in each round")
    for heading in headings:
        grid.add_column(heading, justify="right")
    for report in reports:
        people = (len(report.asked), len(report.answered), len(report.left_out))
        cells = [str(report.number), *map(str, people), f"{report.down:,}", f"{report.up:,}"]
        grid.add_row(*cells, f"{report.seconds:.2f}")
    return grid


def left_out(reports: list[RoundReport], delivery: Delivery) -> dict[str, list[str]]:
    """Who, by when and why; of each client the last time only."""
    last: dict[str, str] = {}
    for report in reports:
        at = f"in round {report.number}"
        last |= {name: f"{at}, {reason}" for name, reason in report.left_out.items()}
    last |= {name: f"at the end, {reason}" for name, reason in delivery.left_out.items()}
    found: dict[str, list[str]] = {}
    for name in sorted(last):
        found.setdefault(last[name], []).append(name)
    return found


def listed(names: list[str]) -> str:
    """The first few by name, and how many more."""
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest
