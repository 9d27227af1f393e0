"""What follows from a graph: types, shapes and elements of values; metrics."""
