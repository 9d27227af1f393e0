"""Passes that write operators of ONNX Runtime's own; the file then runs in ONNX Runtime only."""
