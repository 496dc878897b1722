"""The papers' figures and tables, run again on the published data."""
