"""Types and shapes of all values, also with the numbers bound to symbols; the elements of small ones, ranks; evaluation
of one operator on constants.
"""
