"""Sums over rows are the model: what is computed with U and V, without clock, file or network."""
