"""Writes the evidence of a history as a file, which `workbench/checker` re-checks without any code of the engine:
`flat.py` has nodes and constants as JSON, `edits.py` the log, `bounds.py` what is asked of the output, `writing.py` the
file.
"""
