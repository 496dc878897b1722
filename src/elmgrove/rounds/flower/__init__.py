"""Federations in rounds on Flower (https://flower.ai): a server app and a client app.

Needs ``pip install 'elmgrove[flower]'``, in an environment of its own: Flower pins versions with
which ``elmgrove[server]`` does not work.
"""

from elmgrove.errors import require_extra

require_extra("flwr", "flower")

# Only now: without Flower, the error above says how to install it.
from elmgrove.rounds.flower.client_app import client_app  # noqa: E402
from elmgrove.rounds.flower.server_app import Outcome, server_app  # noqa: E402
from elmgrove.rounds.flower.strategy import RoundsStrategy  # noqa: E402

__all__ = ["Outcome", "RoundsStrategy", "client_app", "server_app"]
