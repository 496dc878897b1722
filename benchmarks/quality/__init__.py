"""How well rows are told apart: Elmgrove against its peers on real and simulated machines."""
