"""Re-checks the evidence of a result: two models and a certificate, without any code of the engine. It is a program of
its own (`python -m workbench.checker`), of the standard library, numpy and onnx; `running.py` imports onnxruntime for
`--run`.

`messages.py` and `certificate_fields.py` refuse fields that no check reads; `files.py` reads models, `records.py` the
certificate and `certificate_nodes.py` the nodes in it; `replay.py` follows the log; `inference.py` infers sizes;
`bounds.py` checks what is said to be the least, by `minimum_cut.py`, `transpose_bound.py`, `cast_bound.py`,
`grouping_bound.py`, `order.py` and `arena.py`; `running.py` runs both models; `checking.py` puts them together.
"""
