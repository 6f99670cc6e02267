"""Long measurements, one command each; not part of the package."""
