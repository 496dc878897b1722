"""Federations in rounds on Flower (https://flower.ai): a server app and a client app.

Needs ``pip install 'elmgrove[flower]'``, in an environment of its own: Flower pins versions with
which ``elmgrove[server]`` does not work.
"""

from elmgrove.errors import require_extra

# Before what imports it: without Flower, this says how to install it.
require_extra("flwr", "flower")

from elmgrove.rounds.flower.apps import (  # noqa: E402  # Flower first
    Conclusion,
    client_app,
    server_app,
)
from elmgrove.rounds.flower.strategy import RoundsStrategy  # noqa: E402  # Flower first

__all__ = ["Conclusion", "RoundsStrategy", "client_app", "server_app"]
