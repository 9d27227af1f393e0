"""Passes that fold what is known at compile time into constants and weights."""
