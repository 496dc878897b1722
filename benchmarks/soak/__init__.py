"""Soak: many agents and a server at work for long, killed, started again and short of disk."""
