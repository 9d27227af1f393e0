"""What can be computed at compile time is folded into constants and weights."""
