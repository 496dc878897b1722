"""Fixtures of the device's tests."""

from support.agents import own_folder_fixture
from support.home_assistant import home_assistant
from support.sources import path_fixture, unpaced

__all__ = ["home_assistant", "own_folder_fixture", "path_fixture", "unpaced"]
