"""Whether results are the same: verification, the smallest part that shows a fault, certificates."""
