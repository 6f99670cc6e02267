"""Parts that several algorithms share, one idea per file."""
