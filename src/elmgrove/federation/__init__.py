"""Who is merged with whom: pure rules, without files, clocks or networks."""

from elmgrove.algebra.crossval import expected_error
from elmgrove.algebra.fed_elms import average
from elmgrove.federation.charter import Charter, address_of, basis_of
from elmgrove.federation.entries import (
    Contribution,
    Departure,
    Entry,
    bundle,
    entry_from_bytes,
    unbundle,
)
from elmgrove.federation.groups import (
    DISTANCES,
    Grouping,
    Local,
    averaged,
    by_evidence,
    by_parameters,
    global_models,
    group,
    matched,
    returned,
    summed,
)
from elmgrove.federation.judgement import Judgement, judge
from elmgrove.federation.ledger import Ledger, Outdated, Refused, Version, follows
from elmgrove.federation.member import Member, least_new_rows
from elmgrove.federation.merged import Merged
from elmgrove.federation.running_sum import RunningSum
from elmgrove.federation.selection import (
    Cost,
    Rule,
    SameGroup,
    benefit,
    everyone,
    named,
    quality,
    within,
)
from elmgrove.federation.standing import StandingGroups

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
    "basis_of",
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
