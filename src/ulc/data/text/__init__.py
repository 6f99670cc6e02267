"""Turn a column of sentences into vectors, the same for training rows and new rows."""
