"""`Rule`, `NoMatch`, `Rewrite`, `Pass`, exactness, the driver, bodies, `History`; which rewrite is which, and what is
left out; guards.
"""
