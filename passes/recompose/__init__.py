"""Standard operators are found in the nodes that exporters wrote for them."""
