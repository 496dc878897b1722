"""Who is merged with whom: pure rules, without files, clocks or networks."""

from elmgrove.cooperation.bundle import bundle, unbundle
from elmgrove.cooperation.charter import Charter, address_of
from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.departure import Departure, Entry, entry_from_bytes
from elmgrove.cooperation.guard import least_new_rows
from elmgrove.cooperation.judgement import Judgement, expected_error, judge
from elmgrove.cooperation.ledger import Ledger
from elmgrove.cooperation.member import Member
from elmgrove.cooperation.merged import Merged
from elmgrove.cooperation.running import RunningSum
from elmgrove.cooperation.selection import Cost, Rule, benefit, everyone, named, quality, within
from elmgrove.cooperation.succession import Outdated, Refused, Version, follows

__all__ = [
    "Charter",
    "Contribution",
    "Cost",
    "Departure",
    "Entry",
    "Judgement",
    "Ledger",
    "Member",
    "Merged",
    "Outdated",
    "Refused",
    "Rule",
    "RunningSum",
    "Version",
    "address_of",
    "benefit",
    "bundle",
    "entry_from_bytes",
    "everyone",
    "expected_error",
    "follows",
    "judge",
    "least_new_rows",
    "named",
    "quality",
    "unbundle",
    "within",
]
