"""The one loop, and what it leaves on the disk."""
