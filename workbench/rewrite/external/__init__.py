"""Third-party optimizers as passes: how one is run, and what it changed."""
