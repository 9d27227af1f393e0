"""The backend `lanes`: concurrent operators, on the CPU by threads, on CUDA by streams."""
