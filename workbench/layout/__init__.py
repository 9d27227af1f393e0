"""Layouts: of every value, of targets, and what it costs to change them."""
