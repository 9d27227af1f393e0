"""Passes that group operators which one kernel can compute."""
