"""Equality saturation: `equations.py` lists what z3 proves, `regions.py` finds regions, `program.py` writes both for
egglog (`egglog_process.py`); `extraction.py` takes the smallest expression, `building.py` makes it an edit,
`saturation_facts.py` is the certificate.
"""
