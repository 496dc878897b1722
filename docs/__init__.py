"""The pages, and what makes a site of them."""
