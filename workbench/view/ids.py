"""How the picture names what is no node: a node goes by its own name, the rest by a prefix and a name."""

INPUT, OUTPUT, CONSTANT, GROUP = "in:", "out:", "const:", "group:"
