"""What is chosen for a whole graph: layouts, element types, groups, memory, streams, smallest expressions."""
