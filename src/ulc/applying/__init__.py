"""What people decided about labels, put into a copy of their data."""
