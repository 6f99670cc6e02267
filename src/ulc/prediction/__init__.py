"""Use a finished run: predict new data, and export the model to other programs."""
