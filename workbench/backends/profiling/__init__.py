"""One profiled run, and the progress of long work."""
