"""From a spec to what an algorithm may see, and apart from it, the truth."""
