"""Whether two graphs give equal results on the same inputs (`verifier.py`), which inputs and sizes these are
(`original_runs.py`), which rewrite broke it (`steps.py`), how one file compares with another (`files.py`), and whether
the file of a pass does what it says (`pass_files/`).
"""
