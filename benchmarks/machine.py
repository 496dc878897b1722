"""Where and when the numbers were taken."""

import os
import platform
from datetime import datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

_OURS = ("elmgrove", "numpy", "scipy", "starlette", "granian", "asyncpg", "httpx")
_PEERS = ("torch", "pyoselm", "pyod", "river", "scikit-learn", "flwr", "ray")


def about() -> dict[str, Any]:
    """Tells date, processor, versions and BLAS."""
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {d.name: d.version for d in distributions() if d.name in _OURS + _PEERS},
        "blas": [
            f"{library['internal_api']} {library['version']} ({library['architecture']}, "
            f"{library['num_threads']} threads by default)"
            for library in threadpool_info()
            if library["user_api"] == "blas"
        ],
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
