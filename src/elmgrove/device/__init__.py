"""The agent that watches a device's rows, and the parts around its detector."""

from elmgrove.device.agent import Agent
from elmgrove.device.output import NobodyReads
from elmgrove.device.settings import PREFIX, Settings, help_of, read_settings, type_of

__all__ = [
    "PREFIX",
    "Agent",
    "NobodyReads",
    "Settings",
    "help_of",
    "read_settings",
    "type_of",
]
