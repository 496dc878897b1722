"""Invitations: what is run on a device so that it joins a federation, and which names may."""

from dataclasses import dataclass

from starlette.requests import Request

from elmgrove.federation import is_admitted
from elmgrove.server.dashboard.shell import exchange_of
from elmgrove.server.store import FederationRow

#: What stands for a device's name in a command.
NAME = "NAME"


@dataclass(frozen=True)
class Invitation:
    """What a command needs to join; ``members`` are the names that may, '' where any may."""

    exchange: str
    name: str
    members: str

    @classmethod
    def of(cls, request: Request, federation: FederationRow) -> "Invitation":
        """Says how one joins a federation of the server that was asked."""
        members = federation.members
        return cls(
            exchange_of(request, federation.name), example(members), ", ".join(members or ())
        )

    @property
    def is_tls(self) -> bool:
        """Says whether the server has a certificate, which may be nobody's but the user's."""
        return self.exchange.startswith("https:")


def example(members: tuple[str, ...] | None) -> str:
    """Gives a name that may join, with the part to be filled in.

    >>> example(("fan-*", "pump")), example(None), example(("fan [12]",))
    ('fan-NAME', 'NAME', 'NAME')
    """
    made = NAME if not members else members[0].replace("*", NAME)
    # What a shell or a folder would take for something else is no example.
    is_plain = made.replace("-", "").replace("_", "").isalnum()
    return made if is_plain and is_admitted(members, made) else NAME
