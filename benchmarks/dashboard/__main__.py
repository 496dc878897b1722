"""python -m benchmarks.dashboard: what the dashboard costs; numbers go to bench/."""

import signal
from typing import Annotated

import typer

from benchmarks.dashboard.live import LivePlan, measure_live
from benchmarks.dashboard.pages import measure_pages

app = typer.Typer(help=__doc__, no_args_is_help=True)
Postgres = Annotated[
    str | None,
    typer.Option(envvar="ELMGROVE_TEST_POSTGRES", help="A PostgreSQL server, by URL."),
]


@app.command()
def pages(
    devices: Annotated[int, typer.Option(help="In the federation.", min=2)] = 10_000,
    records: Annotated[int, typer.Option(help="Of a day in the audit.", min=0)] = 1_000_000,
    requests: Annotated[int, typer.Option(help="For each page.", min=1)] = 100,
    postgres: Postgres = None,
) -> None:
    """Measures each page with very many devices, on SQLite and PostgreSQL."""
    measure_pages(devices, records, requests, postgres)


@app.command()
def live(
    interval: Annotated[
        list[float],
        typer.Option(
            help="Seconds between two syncs of an agent; may be repeated. 60 and 20 unless stated.",
            default_factory=lambda: [60.0, 20.0],
        ),
    ],
    agents: Annotated[int, typer.Option(help="That sync.", min=2)] = 1000,
    processes: Annotated[int, typer.Option(help="In which they take turns.", min=1)] = 4,
    seconds: Annotated[float, typer.Option(help="That one looks on.")] = 90.0,
    postgres: Postgres = None,
) -> None:
    """Measures pages, what is live and commands while agents sync; needs Chromium."""
    plans = [LivePlan(agents, processes, one, seconds) for one in interval]
    measure_live(plans, postgres)


if __name__ == "__main__":
    # Ended like by Ctrl-C: servers and temporary files go first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
