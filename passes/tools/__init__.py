"""Optimizers that others wrote, each as one pass over the whole model."""
