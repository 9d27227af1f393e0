"""Passes in order, nested, as a value and as text (`pipeline.py`); what was done as a command (`command_text.py`); the
rounds of a fixpoint (`repeat.py`); a run, which returns the history (`running.py`), and what rules must not do in it
(`run_limits.py`).
"""
