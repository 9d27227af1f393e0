"""Whether results stay the same: verification, the smallest part that shows a fault, certificates."""
