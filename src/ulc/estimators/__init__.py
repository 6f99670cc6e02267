"""Classifiers with the interface of scikit-learn, and label issues from any model's outputs."""
