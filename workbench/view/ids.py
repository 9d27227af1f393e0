"""How the picture names what is no node: a node goes by its own name, the rest by a prefix and a name."""

INPUT_ID, OUTPUT_ID, CONSTANT_ID, GROUP_ID = "in:", "out:", "const:", "group:"
