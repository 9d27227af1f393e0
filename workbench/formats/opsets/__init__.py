"""Writing a graph for an older opset: calls in forms of equal meaning (`forms.py`, `downgrades.py`), operators that
have none there (`lowering.py`), which opset and version of the format a file gets and why (`written.py`), which ONNX
Runtime reads it (`versions.py`).
"""
