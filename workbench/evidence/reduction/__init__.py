"""Smaller models out of a file: the smallest region that shows a fault, bodies and functions as models, the region
between named values and its way back.
"""
