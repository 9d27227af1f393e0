"""Optimizers that others wrote: how one is asked, and what it changed."""
