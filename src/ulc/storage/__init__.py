"""Read and write files; a file is written whole or not at all."""
