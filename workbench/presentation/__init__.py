"""A graph and its history for people: the view, charts, explanations."""
