"""The agent that watches a device's rows, and the parts around its detector."""
