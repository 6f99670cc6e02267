"""The page of a run: one HTML file to look through, and to decide about each suspicious label."""
