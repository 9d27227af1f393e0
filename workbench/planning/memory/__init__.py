"""Memory of values: lifetimes, what shares memory, plans. `blocks/` has blocks with lifetimes and sizes, without a
graph: bounds and searches; `planners/` the planners, one per file, discovered.
"""
