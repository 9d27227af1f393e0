"""Passes that remove what is not needed."""
