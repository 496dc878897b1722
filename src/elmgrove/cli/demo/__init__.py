"""``elmgrove demo``: real processes on this machine that learn from each other."""
