"""Memory of a graph's values: lifetimes, shared memory, and where each lies in one arena."""
