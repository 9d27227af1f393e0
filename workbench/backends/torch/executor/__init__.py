"""A graph as a list of torch calls, and its runs."""
