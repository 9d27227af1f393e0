"""Passes that choose and convert layouts."""
