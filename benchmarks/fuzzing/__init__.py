"""Parts of `python -m benchmarks fuzz`: how inputs are changed, and which readers get them."""
