"""Smaller models out of a file: a region of its graph as a model of its own, and the smallest that shows a fault."""
