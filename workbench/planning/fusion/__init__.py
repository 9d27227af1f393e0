"""Fusion: which operators compute together in one group, and what that saves in memory traffic."""
