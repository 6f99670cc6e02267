"""Turn images into feature vectors of a frozen network; every algorithm can train on them."""
