"""The exchange service: it keeps what devices publish and hands out sums of it."""
