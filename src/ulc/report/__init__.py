"""The report: one HTML page of a run, with a gallery to decide about suspicious labels."""
