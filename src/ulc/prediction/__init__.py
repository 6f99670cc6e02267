"""A finished run at work: on new data, and outside of this package."""
