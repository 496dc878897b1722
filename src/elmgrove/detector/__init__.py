"""From a row to a verdict."""
