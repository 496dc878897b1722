"""The dashboard: pages to look at a fleet with, rendered here, live by server-sent events."""

from elmgrove.server.dashboard.audit_page import ActCounts
from elmgrove.server.dashboard.federation_page import Comparisons
from elmgrove.server.dashboard.live import Streams
from elmgrove.server.dashboard.pages import dashboard_routes, problem_page, to_login
from elmgrove.server.dashboard.session import Doorkeeper, NoVisit

__all__ = [
    "ActCounts",
    "Comparisons",
    "Doorkeeper",
    "NoVisit",
    "Streams",
    "dashboard_routes",
    "problem_page",
    "to_login",
]
