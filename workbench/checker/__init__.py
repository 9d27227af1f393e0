"""Re-checks the evidence of a result: two models and a certificate, without any code of the engine.

It needs the standard library, numpy and onnx. `files.py` reads models, `records.py` the certificate and `written.py`
the nodes in it; `replay.py` follows the log; `flow.py`, `linear.py`, `moved.py`, `groups.py`, `order.py` and `arena.py`
check bounds; `checking.py` puts them together.
"""
