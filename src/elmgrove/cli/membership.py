"""``elmgrove federation revoke``, ``readmit`` and ``clear``: shuts devices out, or lets them in."""

from typing import Annotated

import typer
from rich.console import Console

from elmgrove.cli.options import notes
from elmgrove.exchange import request
from elmgrove.federation import address_of

Name = Annotated[str, typer.Argument(help="The federation's name.")]
Device = Annotated[str, typer.Argument(help="The device's name.")]


def revoke(
    context: typer.Context,
    name: Name,
    device: Device,
) -> None:
    """Shut a device out: its key becomes invalid, and its part leaves the others' next models."""
    with context.obj.client() as opened:
        request(opened, "DELETE", f"/{name}/devices/{address_of(device)}")
    notes.print(f"{device} is out of {name}; what it contributed is no longer merged.")


def clear(
    context: typer.Context,
    name: Name,
    device: Device,
) -> None:
    """Forget what is held of a device, so that its next sync can publish.

    For an entry that the device can't get past: one that a stolen key made, or one that is damaged.
    """
    with context.obj.client() as opened:
        request(opened, "DELETE", f"/{name}/entries/{address_of(device)}")
    notes.print(f"Nothing is held of {device} in {name} until its next sync.")


def readmit(
    context: typer.Context,
    name: Name,
    device: Device,
) -> None:
    """Make and print a new key for a device that was shut out, or that lost its own."""
    with context.obj.client() as opened:
        asked = {"name": device}
        made = request(opened, "POST", f"/{name}/devices", json=asked).json().text("key")
    notes.print(f"The key of {device}; write it to the .key file beside the device's state:")
    Console().print(made, soft_wrap=True, highlight=False)
