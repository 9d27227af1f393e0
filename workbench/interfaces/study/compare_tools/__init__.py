"""A model through every optimizer that is installed, and whether one of them is wrong."""
