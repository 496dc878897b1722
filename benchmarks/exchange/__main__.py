"""python -m benchmarks.exchange: what the exchange and the agent cost; numbers go to bench/."""

import signal
from typing import Annotated

import typer

from benchmarks.exchange.agent import measure_agent
from benchmarks.exchange.fleet import HAR, SMALL, Size
from benchmarks.exchange.growth import measure_growth
from benchmarks.exchange.load import Plan, measure_load
from benchmarks.exchange.patterns import measure_patterns
from benchmarks.exchange.sums import measure_sums

app = typer.Typer(help=__doc__, no_args_is_help=True)
Quick = Annotated[bool, typer.Option(help="Less of everything: a minute, and less steady.")]


@app.command()
def load(
    devices: Annotated[int, typer.Option(help="In the federation.", min=1)] = 1000,
    seconds: Annotated[float, typer.Option(help="Length of the offered load.")] = 60.0,
    interval: Annotated[float, typer.Option(help="Seconds between two syncs of a device.")] = 60.0,
    connections: Annotated[int, typer.Option(help="At full speed.", min=1)] = 16,
    postgres: Annotated[
        str | None,
        typer.Option(envvar="ELMGROVE_TEST_POSTGRES", help="A PostgreSQL server, by URL."),
    ] = None,
    quick: Quick = False,
) -> None:
    """Measures a server under the load of a fleet, on SQLite; on PostgreSQL, two servers."""
    plan = Plan(devices, seconds, interval, connections)
    measure_load(Plan(100, 10.0, 20.0, connections) if quick else plan, postgres)


@app.command()
def growth(
    devices: Annotated[
        list[int],
        typer.Option(
            help="Size of a fleet; may be repeated. 10, 100, 1000 and 10000 unless stated.",
            min=1,
            default_factory=lambda: [10, 100, 1000, 10_000],
        ),
    ],
    quick: Quick = False,
) -> None:
    """Measures a sync in fleets of different sizes; 10,000 devices need 10 GB on disk meanwhile.

    --quick takes a small layer, and fewer syncs.
    """
    measure_growth(SMALL if quick else HAR, devices, syncs=50 if quick else 200)


@app.command()
def sums(quick: Quick = False) -> None:
    """Measures a million replacements in a running sum, at a small layer, and the cost of one."""
    measure_sums(10_000 if quick else 1_000_000, SMALL)


@app.command()
def patterns(
    devices: Annotated[
        list[int],
        typer.Option(
            help="Size of a fleet; may be repeated. 10, 20, 40, 100, 300, 1000 unless stated.",
            min=2,
            default_factory=lambda: [10, 20, 40, 100, 300, 1000],
        ),
    ],
    quick: Quick = False,
) -> None:
    """Measures what syncs of devices with two patterns cost a whole fleet."""
    measure_patterns([10, 40] if quick else devices)


@app.command()
def agent(quick: Quick = False) -> None:
    """Measures the agent on a device, at rest and at work."""
    sizes = [Size(16, 8), HAR]
    rows = [2000, 1000] if quick else [20_000, 10_000]
    measure_agent(list(zip(sizes, rows, strict=True)), rest_seconds=5.0 if quick else 20.0)


if __name__ == "__main__":
    # Ended like by Ctrl-C: servers and temporary files go first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
