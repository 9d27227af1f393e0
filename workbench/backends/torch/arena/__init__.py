"""A plan of memory that runs: every planned value at its offset in one tensor of bytes."""
