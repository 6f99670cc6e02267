"""The parts of `benchmarks.cleanlab_comparison`: data, methods, scores, tables."""
