"""The same federations on Flower (https://flower.ai): a server app, a client app, a simulation.

Needs ``pip install 'elmgrove[flower]'``, in an environment of its own: Flower pins versions that
the server's do not fit.
"""

from elmgrove.errors import require_extra

require_extra("flwr", "flower")

# After it is known that Flower is there: who lacks it shall read how to get it.
from elmgrove.rounds.flower.client_app import client_app  # noqa: E402
from elmgrove.rounds.flower.server_app import Outcome, server_app  # noqa: E402
from elmgrove.rounds.flower.strategy import RoundsStrategy  # noqa: E402 (see above)

__all__ = ["Outcome", "RoundsStrategy", "client_app", "server_app"]
