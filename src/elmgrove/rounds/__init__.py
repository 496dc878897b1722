"""Federations in rounds."""
