"""The agent that watches a device's rows, and the parts around its detector."""

from elmgrove.device.agent import Agent
from elmgrove.device.output import NobodyReads
from elmgrove.device.settings import PREFIX, Settings
from elmgrove.device.settings_file import group_of, help_of, read_settings, type_of

__all__ = [
    "PREFIX",
    "Agent",
    "NobodyReads",
    "Settings",
    "group_of",
    "help_of",
    "read_settings",
    "type_of",
]
