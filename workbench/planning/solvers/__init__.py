"""Solvers that know no graph of ours: a minimum cut, integer programs, the fewest chains that cover an order."""
