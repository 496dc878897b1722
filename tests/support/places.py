"""Where things lie in the checkout."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
