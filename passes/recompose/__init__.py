"""Passes that find standard operators in the nodes that exporters write for them."""
