"""The element type of every value: what an operator may run in, what a choice of types costs, and its Casts."""
