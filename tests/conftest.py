"""The fixtures that tests of several chapters use: a test names them, and imports nothing."""

from importlib.util import find_spec

import pytest

# So that a failed assertion there says as much as one in a test.
pytest.register_assert_rewrite("support")
pytest_plugins = [
    "support.cores",
    "support.commands",
    "support.laws",
    "support.services",
]
# Flower's environment has no server.
if find_spec("granian") is not None:
    pytest_plugins += [
        "support.slow_clients",
        "support.agents",
        "support.dashboard",
        "support.demo",
    ]
    pytest_plugins += ["support.serving"]
