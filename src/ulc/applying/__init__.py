"""Apply people's decisions about labels to a copy of their data."""
