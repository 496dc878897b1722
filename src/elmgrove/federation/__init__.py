"""Which device knows what of which, and what is merged: pure rules, without files or networks."""

from elmgrove.federation.audit import AuditRecord
from elmgrove.federation.charter import Charter, joined
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.comparison import compare
from elmgrove.federation.contribution import (
    Contribution,
    Departure,
    Entry,
    Ledger,
    entry_from_bytes,
)
from elmgrove.federation.groups import Grouping, group, returned
from elmgrove.federation.member import Member, least_new_rows
from elmgrove.federation.merged import GroupLabel, Merged
from elmgrove.federation.policy import Terms
from elmgrove.federation.report import Report
from elmgrove.federation.selection import Rule, SameGroup, judge
from elmgrove.federation.sums import BoundedSum

__all__ = [
    "AuditRecord",
    "BoundedSum",
    "Charter",
    "Command",
    "CommandResult",
    "Contribution",
    "Departure",
    "Entry",
    "GroupLabel",
    "Grouping",
    "Ledger",
    "Member",
    "Merged",
    "Report",
    "Rule",
    "SameGroup",
    "Terms",
    "compare",
    "entry_from_bytes",
    "group",
    "joined",
    "judge",
    "least_new_rows",
    "returned",
]
