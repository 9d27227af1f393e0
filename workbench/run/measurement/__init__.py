"""Latency, memory and roofline, measured interleaved in the worker, with their spread."""
