"""What runs a graph: ONNX Runtime and torch; what a run of either gives: its profile, failures, memory, tensors on
disk.
"""
