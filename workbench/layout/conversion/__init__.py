"""A choice of layouts becomes edits of the graph."""
