"""Latency, memory, roofline: measured by turns in the worker, told with their spread."""
