"""How many examples a law is tried on: a third of them by default, all where there is time."""

import os

_ALL = 3
#: Thirds of the examples that are tried.
_THIRDS = int(os.environ.get("ELMGROVE_TEST_LAWS", "1"))


def law_examples(most: int) -> int:
    """Gives the number of examples to try where as many as ``most`` are tried in the long form."""
    return max(most * _THIRDS // _ALL, 3)
