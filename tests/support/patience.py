"""Hypothesis without a clock: on a busy machine an example may take any time."""

from hypothesis import HealthCheck, settings

from support.laws import law_examples

settings.register_profile(
    "patient",
    deadline=None,
    max_examples=law_examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")
