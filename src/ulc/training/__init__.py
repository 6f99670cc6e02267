"""The training loop, its observers, and the run folder it leaves on the disk."""
