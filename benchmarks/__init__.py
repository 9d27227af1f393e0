"""What is measured: a module for each benchmark, run by `python -m benchmarks`."""
