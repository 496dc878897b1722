from collections.abc import Mapping
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

def run_simulation(
    server_app: ServerApp,
    client_app: ClientApp,
    num_supernodes: int,
    backend_name: str = "ray",
    backend_config: Mapping[str, Any] | None = None,
) -> None: ...
