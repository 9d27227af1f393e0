"""Solvers that are independent of the graph: minimum cut, integer programs, path cover."""
