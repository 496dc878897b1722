"""Who is merged with whom: pure rules, without files, clocks or networks."""

from elmgrove.algebra.crossval import expected_error
from elmgrove.algebra.fed_elms import average
from elmgrove.cooperation.bundle import bundle, unbundle
from elmgrove.cooperation.charter import Charter, address_of
from elmgrove.cooperation.contribution import Contribution
from elmgrove.cooperation.departure import Departure, Entry, entry_from_bytes
from elmgrove.cooperation.groups import (
    DISTANCES,
    Grouping,
    Local,
    by_evidence,
    by_parameters,
    group,
)
from elmgrove.cooperation.guard import least_new_rows
from elmgrove.cooperation.judgement import Judgement, judge
from elmgrove.cooperation.ledger import Ledger
from elmgrove.cooperation.matching import averaged, global_models, matched, returned, summed
from elmgrove.cooperation.member import Member
from elmgrove.cooperation.merged import Merged
from elmgrove.cooperation.running import RunningSum
from elmgrove.cooperation.selection import (
    Cost,
    Rule,
    SameGroup,
    benefit,
    everyone,
    named,
    quality,
    within,
)
from elmgrove.cooperation.standing import StandingGroups
from elmgrove.cooperation.succession import Outdated, Refused, Version, follows

__all__ = [
    "DISTANCES",
    "Charter",
    "Contribution",
    "Cost",
    "Departure",
    "Entry",
    "Grouping",
    "Judgement",
    "Ledger",
    "Local",
    "Member",
    "Merged",
    "Outdated",
    "Refused",
    "Rule",
    "RunningSum",
    "SameGroup",
    "StandingGroups",
    "Version",
    "address_of",
    "average",
    "averaged",
    "benefit",
    "bundle",
    "by_evidence",
    "by_parameters",
    "entry_from_bytes",
    "everyone",
    "expected_error",
    "follows",
    "global_models",
    "group",
    "judge",
    "least_new_rows",
    "matched",
    "named",
    "quality",
    "returned",
    "summed",
    "unbundle",
    "within",
]
