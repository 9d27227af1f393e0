"""Graph and history to the picture: what changed, which colour, which boxes, charts."""
