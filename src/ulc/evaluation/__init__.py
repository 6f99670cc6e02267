"""Scores of predictions and of judgements, from arrays."""
