"""What is known about labels, as arrays: judgements, class priors, tables, health. NumPy only."""
