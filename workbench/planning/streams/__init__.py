"""Operators side by side: `dependencies.py` and `scheduling.py` know no graph, `problem.py` reads one, with times by a
stated model or measured, `interference.py` says which blocks of memory may then be in use together.
"""
