"""Equality saturation of regions of algebraic operators, with exact extraction."""
