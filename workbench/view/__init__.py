"""From a graph and its history to the picture: what changed, colours, boxes, placement."""
