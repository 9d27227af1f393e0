"""Passes that apply algebraic equations from left to right."""
