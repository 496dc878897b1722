"""Fixtures of the device's tests."""

from support.at_work import own_folder_fixture

__all__ = ["own_folder_fixture"]
