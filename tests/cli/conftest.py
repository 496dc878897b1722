"""Fixtures of the commands' tests."""

from support.fans import fan_1_fixture, fan_2_fixture

__all__ = ["fan_1_fixture", "fan_2_fixture"]
