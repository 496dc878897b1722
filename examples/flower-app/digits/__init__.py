"""Handwritten digits in a federation: a server app, a client app, and the rows of each client."""
