"""Pipelines: passes in order, as a value, as text, and run on a graph."""
