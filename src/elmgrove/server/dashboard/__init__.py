"""The dashboard: pages to look at a fleet with, rendered here, live by server-sent events."""
