"""The papers' figures and tables, run again on the published data."""

__version__ = "0.1.0"
