"""What the server remembers, in SQLite or in PostgreSQL."""
