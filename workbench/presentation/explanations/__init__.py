"""A model, a pass, a history and a comparison, in words, numbers and JSON."""
