"""What follows from a graph before it runs: types, shapes, the numbers of small values, constants."""
