"""Images seen through a frozen network, as vectors that every algorithm can learn from."""
