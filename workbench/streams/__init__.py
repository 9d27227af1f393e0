"""Operators that could run side by side: the bound on what that gains, lanes, the order of launches, a schedule."""
