"""Strategies that choose and change layouts."""
