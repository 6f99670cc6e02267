"""Several trainings: comparisons, sweeps, and the tables of their results."""
