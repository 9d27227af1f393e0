"""What runs a graph: ONNX Runtime and torch, and what they have in common."""
