"""Rules as equations and as small graphs: terms, searching, matching, and building what replaces a match."""
