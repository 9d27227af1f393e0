"""Passes that change where and when memory is used."""
