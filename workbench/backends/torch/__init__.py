"""The torch executor: a graph run operator by operator, through the contracts."""
