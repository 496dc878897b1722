"""Who is merged with whom: pure rules, without files, clocks or networks."""

from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.ledger import Ledger
from elmgrove.cooperation.member import Member

__all__ = ["Contribution", "Ledger", "Member"]
