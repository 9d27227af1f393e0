"""Passes that choose the element type in which operators run."""
