"""8-bit integers as ONNX Runtime's static quantizer chooses them: which values, with which scale."""
