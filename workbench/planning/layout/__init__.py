"""Layouts of values, the layouts that targets demand, and the cost of changing layouts."""
