"""Blocks of memory with a lifetime and a size, without the graph that they come from."""
