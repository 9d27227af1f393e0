"""The layout of every value, target profiles (TOML); `problem/` states the choice of layouts as an optimization
problem, `conversion/` turns a choice into edits, `strategies/` has the base of the passes that do both, and
`strategies/what_needs_transposes.py` says why a Transpose stays.
"""
