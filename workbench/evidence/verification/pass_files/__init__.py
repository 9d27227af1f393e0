"""Whether the file of a pass does what it says: its examples, laws, refusals, and the graphs close to its examples."""
