"""Images that are read when they are needed: worker processes decode, a cache on disk keeps."""
