"""The picture of a graph and its history: what changed, colours, boxes and their layout."""
