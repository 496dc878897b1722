"""What the exchange costs: its server under load and as fleets grow, its sums, and the agent."""
