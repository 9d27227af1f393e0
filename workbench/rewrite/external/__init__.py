"""Optimizers that others wrote: what a pass asks of one and gets (`tool_call.py`), as passes (`tool_pass.py`,
`own_tool.py`), with what they changed as edits (`difference.py`).
"""
