"""Smaller models from a file: a region of its graph as a model, and a smallest one that shows a fault."""
