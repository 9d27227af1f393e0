"""The layout part of every contract: what an operator computes on permuted operands."""
