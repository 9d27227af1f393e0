"""Latency, memory and roofline, measured by turns in the worker, with their spread."""
