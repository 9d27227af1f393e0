"""Measurements kept in a database, and the differences between them."""
