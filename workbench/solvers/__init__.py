"""Solvers that know no graph: a minimum cut, an integer program."""
