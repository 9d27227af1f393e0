"""A model in numbers (`summary.py`), a pass in words (`explanation.py`), JSON (`reporting.py`), what changed by kind
(`digest.py`), what it gained (`gain.py`) and where the time went (`time_changes.py`), what a step considered
(`refusals.py`), groupings and layout strategies side by side.
"""
