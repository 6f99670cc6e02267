"""Files and folders on the disk: written whole or not at all, read with one-sentence errors."""
