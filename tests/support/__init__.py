"""What several tests use: devices, servers, rows and commands."""
