"""What the dashboard costs: its pages with many devices, and with many live agents."""
