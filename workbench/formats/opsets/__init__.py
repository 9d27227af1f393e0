"""Writing a graph for an older opset: forms of operators, the graph in them, and which runtimes read it."""
