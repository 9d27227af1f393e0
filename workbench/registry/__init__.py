"""The passes that were found, as users name them, and what they are given to run with."""
