"""What is particular to ONNX Runtime as a backend."""
