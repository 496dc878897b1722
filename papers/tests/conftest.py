"""The appendix's tests use fixtures of the library's, also where they are run alone."""

import pytest

pytest.register_assert_rewrite("support")
pytest_plugins = [
    "support.cores",
    "support.commands",
    "support.laws",
    "support.services",
]
