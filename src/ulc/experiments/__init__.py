"""The paper's settings and what we measure with them."""
