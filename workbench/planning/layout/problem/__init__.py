"""A graph as a problem of choosing layouts: which operators may choose, and what each choice costs."""
