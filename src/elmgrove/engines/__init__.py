"""Federations in rounds: one set of rules and messages, run in this process or on Flower."""
