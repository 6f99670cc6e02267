"""Data sets: reading, imbalance, noise, training data, and separately the true labels."""
