"""The agent that watches a device's rows, and the parts around its detector."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmgrove.device.actions import ACTIONS, DRY_RUN, Action, perform
from elmgrove.device.agent import Agent
from elmgrove.device.control import CONTROL_ROOT
from elmgrove.device.listening import MEANT, hash_of, socket_places
from elmgrove.device.output import NobodyReads
from elmgrove.device.settings import PREFIX, Settings, first_rows
from elmgrove.device.settings_file import group_of, help_of, read_settings, type_of
from elmgrove.device.status import mark_state, status_of

if TYPE_CHECKING:
    from elmgrove.device.participant import Ending, Participant, SavedAnswer

__all__ = [
    "ACTIONS",
    "CONTROL_ROOT",
    "DRY_RUN",
    "MEANT",
    "PREFIX",
    "Action",
    "Agent",
    "Ending",
    "NobodyReads",
    "Participant",
    "SavedAnswer",
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

#: What takes part in rounds: loaded when asked for, since an agent needs neither them nor httpx.
_IN_ROUNDS = ("Ending", "Participant", "SavedAnswer")


def __getattr__(name: str) -> Any:
    if name not in _IN_ROUNDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.participant"), name)
