"""How fast Elmgrove is, beside the papers' equations and the libraries people would use instead."""
