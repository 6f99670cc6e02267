"""What two algorithms share: each file one idea."""
