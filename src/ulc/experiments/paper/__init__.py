"""The tables and figures of the ULC paper as grids of trainings, with the paper's own numbers."""
