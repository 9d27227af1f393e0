"""The backend `fused`: every group of operators by the fastest of the kernels that can compute it."""
