"""How good predictions and judgements are: arrays in, numbers out."""
