"""Ids of the picture's elements: a node's is its name, any other's a prefix and a name."""

INPUT_ID, OUTPUT_ID, CONSTANT_ID, GROUP_ID = "in:", "out:", "const:", "group:"
