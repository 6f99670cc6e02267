"""Comparisons, sweeps, trainings side by side, and tables of runs."""
