"""Turns a choice of layouts into edits of the graph."""
