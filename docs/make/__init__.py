"""Makes the site: python -m docs.make."""
