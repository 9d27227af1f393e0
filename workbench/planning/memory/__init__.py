"""Memory of a graph's values: lifetimes, shared memory, and the offset of each in one arena."""
