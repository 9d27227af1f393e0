"""The backend `streams`: concurrent operators on CUDA streams."""
