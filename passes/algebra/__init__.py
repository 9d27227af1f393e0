"""Equations of numbers, from left to right."""
