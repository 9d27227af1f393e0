"""Analyses that passes share: preconditions, and properties of operators and values."""
