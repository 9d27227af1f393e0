"""The backend ONNX Runtime."""
