"""What becomes of an operator when its operands come permuted: the layout part of every contract."""
