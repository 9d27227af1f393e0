"""Rules as equations and as graphs: terms, matching, and building what replaces a match."""
