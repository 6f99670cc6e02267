"""How fast `ulc` is, beside bare arithmetic and beside other programs."""
