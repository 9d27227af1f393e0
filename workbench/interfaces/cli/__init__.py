"""The command line: one module per command, with its arguments, examples and help; `pipeline.py`, `arguments.py`,
`printing.py` are shared by commands, `main.py` is the entry point.
"""
