"""The appendix's tests use fixtures of the library's, also where they are run alone."""

pytest_plugins = ["support.commands", "support.services"]
