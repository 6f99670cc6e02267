"""Settings by data set and by size, and variants of algorithms by name."""
