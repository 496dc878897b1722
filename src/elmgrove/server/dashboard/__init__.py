"""The dashboard: pages to look at a fleet with, rendered here, live by server-sent events."""

from elmgrove.server.dashboard.act_counts import ActCounts
from elmgrove.server.dashboard.explaining import Comparisons
from elmgrove.server.dashboard.live_pages import Streams
from elmgrove.server.dashboard.login import Doorkeeper
from elmgrove.server.dashboard.pages import dashboard_routes, problem_page, to_login
from elmgrove.server.dashboard.visitors import NoVisit

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
