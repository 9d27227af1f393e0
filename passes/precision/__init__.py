"""Passes that choose the element type in which operators run, float16 or bfloat16."""
