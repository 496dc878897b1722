"""The agent that watches a device's rows, and the parts around its detector."""

from elmgrove.device.actions import ACTIONS, DRY_RUN, Action, perform
from elmgrove.device.agent import Agent
from elmgrove.device.control import CONTROL_ROOT
from elmgrove.device.control_server import MEANT, hash_of, socket_places
from elmgrove.device.output import NobodyReads
from elmgrove.device.settings import (
    PREFIX,
    Settings,
    first_rows,
    group_of,
    help_of,
    read_settings,
    type_of,
)
from elmgrove.device.status import mark_state, status_of

__all__ = [
    "ACTIONS",
    "CONTROL_ROOT",
    "DRY_RUN",
    "MEANT",
    "PREFIX",
    "Action",
    "Agent",
    "NobodyReads",
    "Settings",
    "first_rows",
    "group_of",
    "hash_of",
    "help_of",
    "mark_state",
    "perform",
    "read_settings",
    "socket_places",
    "status_of",
    "type_of",
]
