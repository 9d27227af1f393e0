"""What follows from a graph: types, shapes, elements of small values; metrics."""
