"""Operators that run side by side: on the CPU by threads, on CUDA by streams."""
