"""Concurrent operators: a bound on the gain, the streams, the order of launches, and a schedule."""
