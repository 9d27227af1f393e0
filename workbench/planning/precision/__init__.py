"""The element type of every value: which operators run in float32 and in a narrower type, which must stay, what Casts
cost, the choice as a minimum cut, its conversion; `strategies/` has the base of the passes that do it.
"""
