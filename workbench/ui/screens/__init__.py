"""A page a stage, in the order of the data."""
