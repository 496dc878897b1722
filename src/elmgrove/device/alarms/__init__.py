"""Alarms: told to a web address, a command, or both, without holding up the detector."""

from elmgrove.device.alarms.alarms import Alarms

__all__ = ["Alarms"]
