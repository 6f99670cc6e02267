"""Read data sets, add imbalance and noise, make training data; true labels are kept apart."""
