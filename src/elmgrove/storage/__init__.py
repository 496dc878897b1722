"""What touches a disk: files that are written whole or not at all, and tables of rows."""
