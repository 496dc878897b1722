"""Reasons: what a broker's codes mean to a person, and what there is to do."""

from paho.mqtt.reasoncodes import ReasonCode

from elmgrove.errors import ElmgroveError
from elmgrove.exchange.base import Unauthorized, Unreachable
from elmgrove.exchange.broker_address import BrokerAddress
from elmgrove.exchange.responses import plain

# What a broker says to whom it does not know, in answer to anything.
_NOT_LET = (0x86, 0x87, 0x8A, 0x8C)
#: What it says of a packet that is larger than it takes.
TOO_LARGE = 0x95


class Reasons:
    """Makes errors of what a broker says to one who is known there by this address."""

    def __init__(self, address: BrokerAddress) -> None:
        self._place = address.place
        self._secure = address.secure
        self._who = repr(address.user) if address.user else "anybody without a name"

    def unreachable(self, why: str) -> Unreachable:
        """Says why the broker can't be asked now."""
        hint = ""
        if self._secure and "certificate" in why.lower():
            hint = " (state the authority that signed the broker's certificate as ca)"
        return Unreachable(f"{self._place}: {why}{hint}")

    def not_let_in(self, reason: ReasonCode) -> ElmgroveError:
        """Says why the broker did not let one in."""
        if reason.value not in _NOT_LET:
            return self.unreachable(f"it lets nobody in by MQTT 5: {said(reason)}")
        return Unauthorized(
            f"{self._place} does not let {self._who} in: {said(reason)}; state user and password, "
            "or a certificate, that the broker knows"
        )

    def not_allowed(self, what: str, topic: str, reason: ReasonCode) -> str:
        """Says why one may not write or read there."""
        told = f"{self._place} does not let {self._who} {what} {plain(topic)}: {said(reason)}"
        if reason.value in _NOT_LET:
            return f"{told}; allow it in the broker's access list"
        if reason.value == TOO_LARGE:
            return f"{told}; let the broker take larger messages"
        return told


def said(reason: ReasonCode) -> str:
    """Gives the words for a code."""
    return plain(reason.getName())
