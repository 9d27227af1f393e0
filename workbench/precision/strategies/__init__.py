"""Precision strategies: their base."""
