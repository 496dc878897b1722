"""Several normal patterns, a model for each."""
