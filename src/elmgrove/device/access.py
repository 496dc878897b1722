"""How an agent gets to brokers: who it is there, and what its log says while one is away."""

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from elmgrove.device.settings import Settings
from elmgrove.device.trouble import Trouble
from elmgrove.exchange import BrokerAddress, Message, Tls

if TYPE_CHECKING:
    from elmgrove.exchange import Broker

#: The bytes of a message, at most: a row, or some in one message.
MOST_PACKET = 1 << 20
# Trust those whom this machine trusts, and present nothing.
_TLS = Tls()


@dataclass(frozen=True)
class Access:
    """What lets an agent in at a broker: a user with a password, a certificate, or both."""

    user: str = ""
    password: str = ""
    tls: Tls = _TLS

    @classmethod
    def of(cls, settings: Settings) -> "Access":
        """Takes it from the settings, which are the same for every broker."""
        tls = Tls(settings.ca, settings.certificate, settings.private_key)
        return cls(settings.mqtt_user, settings.mqtt_password, tls)

    def broker(
        self,
        url: str,
        client_id: str,
        *,
        will: Message | None = None,
        clean: bool = True,
        receipts: bool = False,
    ) -> "Broker":
        """Makes a link to the broker at a URL, whose user counts if it names one."""
        # Here, since it needs the extra, which most devices do without.
        from elmgrove.exchange import Broker

        address = BrokerAddress.parsed(url)
        return Broker(
            address if address.user else replace(address, user=self.user),
            client_id,
            password=self.password or None,
            tls=self.tls,
            will=will,
            clean=clean,
            most=MOST_PACKET,
            receipts=receipts,
        )


def client_id(what: str, *names: str) -> str:
    """Gives the name of a link to a broker, the same each time; no two devices' are equal.

    Letters that a broker takes for a part of its access rules are none of it.
    """
    readable = re.sub(r"[^a-zA-Z0-9_.-]+", "-", names[0])[:40]
    told_apart = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    return f"elmgrove-{what}-{readable}-{told_apart}"


class Away:
    """Tells once that a broker can't be reached and what happens ``meanwhile``, and when it can."""

    def __init__(self, broker: "Broker", meanwhile: str) -> None:
        self._broker = broker
        self._trouble = Trouble(
            str(broker.address), "can't be used", meanwhile, "can be used again"
        )

    def look(self) -> None:
        """Looks how the broker is doing."""
        error = self._broker.trouble
        if error is not None:
            self._trouble.begin(error)
        elif self._broker.linked:
            self._trouble.end()
